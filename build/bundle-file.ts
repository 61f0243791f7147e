import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const REPOSITORY = fileURLToPath(new URL('..', import.meta.url))
const OUT = join(REPOSITORY, 'build/out')
/** A program of this repository: its file in build/out, how that is made, and what it is made from. */
interface Program {
  readonly name: string
  readonly target: string
  readonly sources: readonly string[]
  /** A folder among these that is not part of the program. */
  readonly without?: string
}

const COMMON = ['src', 'hal', 'build/esbuild-options.ts', 'package.json', 'package-lock.json']

/** The program that runs on a device. The owner's program uses parts of it, never the other way around. */
export const SERVICE_PROGRAM: Program = {
  name: 'receiverd.cjs',
  target: 'build',
  sources: [...COMMON, 'build/bundle.ts', 'build/page.ts'],
  without: 'src/fleet/',
}
/** The program that runs on the computer of an owner of many devices. */
export const FLEET_PROGRAM: Program = {
  name: 'receiverd-fleet.cjs',
  target: 'fleet',
  sources: [...COMMON, 'build/fleet.ts'],
}

/** Files among the sources that are not bundled: READMEs, their pictures, and what Ansible runs. */
const NOT_BUNDLED = /\.(md|png|py|pyc)$/

/**
 * The path of a program in build/out. It is checked against the sources, so that no test or measurement uses a program that was
 * built from other sources.
 * @throws {Error} if the program is missing or out of date.
 */
export function currentBundle(program = SERVICE_PROGRAM): string {
  const path = join(OUT, program.name)
  const remedy = `run make ${program.target}`
  if (!existsSync(path)) throw new Error(`build/out/${program.name} does not exist: ${remedy}`)
  const record = recordOf(program)
  const builtFrom = existsSync(record) ? readFileSync(record, 'utf8') : ''
  if (builtFrom !== digestOfSources(program))
    throw new Error(`build/out/${program.name} is out of date, the sources have changed since: ${remedy}`)
  return path
}

/** The digest of a program's sources. Call it before the build: a source that changes meanwhile makes the program out of date. */
export function digestOfSources(program: Program): string {
  const digest = createHash('sha256')
  const { sources, without } = program
  const paths = sources.flatMap(filesAt).filter(path => without === undefined || !path.startsWith(without))
  for (const path of paths.sort())
    digest
      .update(`${path}\0`)
      .update(readFileSync(join(REPOSITORY, path)))
      .update('\0')
  return digest.digest('hex')
}

/** Records what a program was built from. Call it after the program was written. */
export function recordSources(program: Program, digest: string): void {
  writeFileSync(recordOf(program), digest)
}

/** The path of the file that holds the digest of a program's sources. */
function recordOf({ name }: Program): string {
  return join(OUT, `${name}.sources`)
}

function filesAt(path: string): readonly string[] {
  if (!statSync(join(REPOSITORY, path)).isDirectory()) return [path]
  return readdirSync(join(REPOSITORY, path), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && !NOT_BUNDLED.test(entry.name) && !entry.parentPath.includes('/node_modules'))
    .map(entry => join(entry.parentPath, entry.name).slice(REPOSITORY.length))
}
