/** Packaged and printed texts list the options as the program has them. */
import t from 'tap'
import { PATHS, withOptions } from '../../build/options.ts'
import { parseCommand } from '../../src/cli/cli.ts'
import { helpFor } from '../../src/cli/help.ts'
import { readConfig, unknownVariables } from '../../src/config.ts'
import { ALL_OPTIONS } from '../../src/options.ts'
import { READMES, readText } from '../support/readme.ts'

const PID = 1
const manual = readText('build/package/receiverd.8').replaceAll('\\-', '-')

t.test('the lists in the manual page, the example and the README are those of src/options.ts', async t => {
  t.equal(PATHS.length, 3)
  for (const path of PATHS) {
    const text = readText(path)
    t.equal(text, withOptions(path, text), `${path}: make format brings it up to date`)
  }
})

t.test('a file without a place for the list is an error', async t => {
  for (const path of PATHS) t.throws(() => withOptions(path, 'nothing'), { message: /there is no line "/ }, path)
  t.throws(() => withOptions('build/package/README.md', readText(PATHS[0] ?? '').replace('end of options', '')))
})

t.test('every option is one of the program, and has the default that is listed', async t => {
  const defaults = readConfig({}, {}, PID)
  t.same(unknownVariables(Object.fromEntries(ALL_OPTIONS.map(({ env }) => [env, '']))), [])
  for (const { env, fallback, example, min, max } of ALL_OPTIONS) {
    if (example !== undefined) t.notSame(readConfig({}, { [env]: example }, PID), defaults, `${env}=${example}`)
    else if (!/none| /.test(String(fallback)))
      t.same(readConfig({}, { [env]: String(fallback) }, PID), defaults, `${env}=${fallback}`)
    if (min === undefined || max === undefined) continue
    for (const value of [min, max])
      t.doesNotThrow(() => readConfig({}, { [env]: String(value) }, PID), `${env}=${value}`)
    for (const value of [min - 1, max + 1])
      t.throws(() => readConfig({}, { [env]: String(value) }, PID), `${env}=${value}`)
  }
  for (const { flag: [flag] = [] } of ALL_OPTIONS)
    if (flag) t.match(parseCommand(['serve', `--${flag}`, '/x'], ''), { flags: { [flag]: '/x' } }, `--${flag}`)
})

t.test('no other variable is named anywhere', async t => {
  const known = new Set(ALL_OPTIONS.map(({ env }) => env))
  for (const text of [manual, ...[...PATHS, ...READMES].map(readText)])
    for (const [name] of text.matchAll(/RECEIVERD_[A-Z_]+\w/g)) t.ok(known.has(name), name)
})

t.test('the manual page has every option of every command, and no other', async t => {
  const flagsOf = (text: string) => new Set(Array.from(text.matchAll(/(?<![\w-])--[a-z][a-z-]*/g), ([flag]) => flag))
  const commands = [undefined, 'serve', 'key', 'config', 'update', 'token', 'session', 'discover']
  const printed = flagsOf(commands.map(helpFor).join('').replaceAll('curl --pinnedpubkey', ''))
  t.ok(printed.size > 12)
  t.same([...flagsOf(manual)].sort(), [...printed].sort())
})
