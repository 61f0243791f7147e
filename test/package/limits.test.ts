/** The texts that are packaged agree with the program about its limits. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { unknownVariables } from '../../src/config.ts'
import { LIMITS } from '../../src/limits.ts'

const read = (path: string) => readFileSync(join(REPOSITORY, path), 'utf8')
const readme = read('build/package/README.md')
const manual = read('build/package/receiverd.8').replaceAll('\\-', '-')
const defaults = read('build/package/receiverd.default')

t.test('every limit, with its default, is in the README, the manual page and the defaults', async t => {
  for (const [, { env, fallback }] of LIMITS) {
    t.match(readme, new RegExp(`^\\| \\| \`${env}\` \\| ${fallback.toLocaleString('en')} \\|`, 'm'), `README: ${env}`)
    t.match(manual, new RegExp(`^\\.B ${env}\\n.*\\(${fallback}\\)\\.$`, 'm'), `receiverd.8: ${env}`)
    t.match(defaults, new RegExp(`^#${env}=${fallback}$`, 'm'), `receiverd.default: ${env}`)
  }
})

t.test('no other variable is', async t => {
  const known = new Set([
    'RECEIVERD_LISTEN',
    'RECEIVERD_ENGINES',
    'RECEIVERD_ROOT',
    'RECEIVERD_ORIGINS',
    'RECEIVERD_PAGE',
    'RECEIVERD_ANNOUNCE',
    'RECEIVERD_SCREEN_KEY',
    'RECEIVERD_TLS_PORT',
    ...LIMITS.map(([, { env }]) => env),
  ])
  for (const text of [readme, manual, defaults])
    for (const [name] of text.matchAll(/RECEIVERD_[A-Z_]+/g)) t.ok(known.has(name), name)
  t.same(unknownVariables(Object.fromEntries([...known].map(name => [name, '']))), [], 'and all of them are options')
})
