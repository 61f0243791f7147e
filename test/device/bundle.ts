/** Signed updates for emulated boards: the system that `make image` made, under another version, or a few files. */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { REPOSITORY } from '../../build/bundle-file.ts'
import type { Board } from './boards.ts'
import { prepareSystem } from './machine.ts'

const RELEASE = '/usr/lib/os-release'
const BARE_BYTES = 16 * 1024 ** 2
/** RAUC refuses a bundle of less than a few blocks, compressed. */
const LEAST_BYTES = 128 * 1024

/**
 * Makes a bundle of the board's own system.
 * @param folder Where to make the bundle.
 * @param files Files that replace the system's own, by path.
 * @returns its path.
 */
export function makeBundle(
  folder: string,
  board: Board,
  version: string,
  files: Readonly<Record<string, string | Buffer>> = {},
): string {
  const system = join(folder, `${version}.ext4`)
  execFileSync('cp', ['--sparse=always', board.system, system])
  const release = execFileSync('/sbin/debugfs', ['-R', `cat ${RELEASE}`, system], { encoding: 'utf8', stdio: 'pipe' })
  const changed = release.replace(/^IMAGE_VERSION=.*$/m, `IMAGE_VERSION=${version}`)
  prepareSystem(system, board, { [RELEASE]: changed, ...files })
  return sign(system, board, version)
}

/** Makes a bundle of a system that has only these files, by path. It is uploaded and installed in seconds. */
export function makeBareBundle(
  folder: string,
  board: Board,
  version: string,
  files: Readonly<Record<string, string>>,
): string {
  const root = join(folder, version)
  for (const [path, text] of Object.entries({ ...files, [RELEASE]: `IMAGE_VERSION=${version}\n` })) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  writeFileSync(join(root, 'random'), randomBytes(LEAST_BYTES))
  const system = join(folder, `${version}.ext4`)
  execFileSync('/sbin/mke2fs', ['-q', '-t', 'ext4', '-d', root, system, `${BARE_BYTES / 1024}k`])
  return sign(system, board, version)
}

/** Returns the initrd of the board's system, with a script in place of its own. */
export function initrdWith({ system }: Board, path: string, script: string): Buffer {
  const options = { maxBuffer: 64 * 1024 ** 2, stdio: 'pipe' } as const
  const debugfs = (command: string) => execFileSync('/sbin/debugfs', ['-R', command, system], options)
  const name = /initrd\.img-[^/]+/.exec(debugfs('ls -p /boot').toString())?.[0]
  const initrd = debugfs(`cat /boot/${name}`)
  return Buffer.concat([initrd, Buffer.alloc(-initrd.length & 3), archive(path, script)])
}

/** Returns an archive that the kernel unpacks over those before it (initramfs-buffer-format.rst of its documentation). */
function archive(path: string, script: string): Buffer {
  const aligned = (text: string) => text + '\0'.repeat(-Buffer.byteLength(text) & 3)
  const entry = (name: string, mode: number, content: string) => {
    // Inode, mode, owner, group, links, time, size, two devices, size of the name, checksum: without a link, no inode is needed.
    const fields = [0, mode, 0, 0, 1, 0, Buffer.byteLength(content), 0, 0, 0, 0, name.length + 1, 0]
    const header = `070701${fields.map(field => field.toString(16).padStart(8, '0')).join('')}`
    return aligned(`${header}${name}\0`) + aligned(content)
  }
  return Buffer.from(entry(path, 0o100755, script) + entry('TRAILER!!!', 0, ''))
}

/** Puts a system into a bundle beside it. The system is removed. */
function sign(system: string, board: Board, version: string): string {
  const out = system.replace(/ext4$/, 'raucb')
  // A level that takes seconds instead of minutes.
  const env = { ...process.env, VERSION: version, BOARD: board.name, KEYS: join(REPOSITORY, '.keys'), LEVEL: '1' }
  execFileSync('build/image/bundle.sh', [system, out], { cwd: REPOSITORY, env, stdio: ['ignore', 'pipe', 'inherit'] })
  rmSync(system)
  return out
}
