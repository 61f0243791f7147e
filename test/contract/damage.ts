/** Things found in place of a setting's file. */
import { execFileSync } from 'node:child_process'
import { existsSync, linkSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Puts something at a path; `fifo` is the path of a FIFO to link. */
type Put = (at: string, fifo: string) => void

/** Writing any value repairs these. */
const REPAIRABLE: Readonly<Record<string, Put>> = {
  'binary garbage': at => writeFileSync(at, Buffer.from([0xff, 0xfe, 0, 0x80, 10])),
  'garbage text': at => writeFileSync(at, '=\n\0[\n"\'\\\n#\n[Time\nNTP'),
  'an empty file': at => writeFileSync(at, ''),
  'a file that is too long': at => writeFileSync(at, 'x'.repeat(100_000)),
  'long lines': at => writeFileSync(at, `${' '.repeat(20_000)}a=${'\\'.repeat(20_000)}\n[${'['.repeat(20_000)}`),
  'an empty folder': at => mkdirSync(at),
  'a link to itself': at => symlinkSync(at.slice(at.lastIndexOf('/') + 1), at),
  nothing: () => undefined,
}

/** Writing leaves these alone. */
const SPECIAL: Readonly<Record<string, Put>> = {
  'a FIFO': (at, fifo) => linkSync(fifo, at),
  'a folder with a file in it': at => {
    mkdirSync(at)
    writeFileSync(join(at, 'file'), '')
  },
}

export const DAMAGES: readonly string[] = [...Object.keys(REPAIRABLE), ...Object.keys(SPECIAL)]

export function isRepairable(damage: string): boolean {
  return damage in REPAIRABLE
}

/** @param folder Of the same file system as the root, for a FIFO to link. */
export function putInPlace(root: string, path: string, damage: string, folder: string): void {
  const at = join(root, path)
  const fifo = join(folder, 'fifo')
  if (!existsSync(fifo)) execFileSync('mkfifo', [fifo])
  mkdirSync(dirname(at), { recursive: true })
  rmSync(at, { recursive: true, force: true })
  const put = REPAIRABLE[damage] ?? SPECIAL[damage]
  put?.(at, fifo)
}
