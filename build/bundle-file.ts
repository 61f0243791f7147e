import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const REPOSITORY = fileURLToPath(new URL('..', import.meta.url))
const BUNDLE = join(REPOSITORY, 'build/out/receiverd.cjs')
/** The digest of the sources that the bundle was built from. */
const BUILT_FROM = `${BUNDLE}.sources`
const SOURCES = [
  'src',
  'hal',
  'build/bundle.ts',
  'build/esbuild-options.ts',
  'build/page.ts',
  'package.json',
  'package-lock.json',
]

/** READMEs and their pictures stand among the sources. */
const NOT_BUNDLED = /\.(md|png)$/

/**
 * The path of build/out/receiverd.cjs. It is checked against the sources, so that no test passes, and nothing is
 * measured, on a bundle that was built from other sources.
 * @throws {Error} if there is no bundle, or it is out of date.
 */
export function currentBundle(): string {
  if (!existsSync(BUNDLE)) throw new Error('build/out/receiverd.cjs does not exist: run make build')
  const builtFrom = existsSync(BUILT_FROM) ? readFileSync(BUILT_FROM, 'utf8') : ''
  if (builtFrom !== digestOfSources())
    throw new Error('build/out/receiverd.cjs is out of date, the sources have changed since: run make build')
  return BUNDLE
}

/** Called before the bundle is built: a source that changes meanwhile makes it out of date. */
export function digestOfSources(): string {
  const digest = createHash('sha256')
  for (const path of SOURCES.flatMap(filesAt).sort())
    digest
      .update(`${path}\0`)
      .update(readFileSync(join(REPOSITORY, path)))
      .update('\0')
  return digest.digest('hex')
}

/** Called after the bundle was written. */
export function recordSources(digest: string): void {
  writeFileSync(BUILT_FROM, digest)
}

function filesAt(path: string): readonly string[] {
  if (!statSync(join(REPOSITORY, path)).isDirectory()) return [path]
  return readdirSync(join(REPOSITORY, path), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && !NOT_BUNDLED.test(entry.name))
    .map(entry => join(entry.parentPath, entry.name).slice(REPOSITORY.length))
}
