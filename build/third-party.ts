// The notices of the packages whose code is in the bundle, as their licenses require.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Metafile } from 'esbuild'

/** Licenses under which code may go into the bundle: they ask for no more than their notice. */
const ALLOWED = ['MIT', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD']
const PACKAGE = /^(?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/]+)\//

/** The names of the packages that contribute code to a bundle. */
export function bundledPackages({ inputs }: Pick<Metafile, 'inputs'>): readonly string[] {
  return [...new Set(Object.keys(inputs).flatMap(path => PACKAGE.exec(path)?.[1] ?? []))].sort()
}

/** The name, version, address and license of each. @throws {Error} if one has no license, or one that is not allowed. */
export function noticesOf(packages: readonly string[], folder = 'node_modules'): string {
  return packages.map(name => noticeOf(name, join(folder, name))).join(`\n${'-'.repeat(80)}\n\n`)
}

function noticeOf(name: string, folder: string): string {
  const { version, license, homepage = '' } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  if (!ALLOWED.includes(license))
    throw new Error(`${name} must not be in the bundle: its license is ${license}, not one of ${ALLOWED.join(', ')}`)
  const files = readdirSync(folder).filter(file => /^(licen[cs]e|notice)/i.test(file))
  if (files.length === 0) throw new Error(`${name} must not be in the bundle: it has no file with its license`)
  const texts = files.map(file => readFileSync(join(folder, file), 'utf8').trim())
  return [`${name} ${version}`, homepage, license, '', ...texts, ''].join('\n')
}
