import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { getValue, setValue } from '../../../hal/format/key-value.ts'
import { needs } from '../../support/needs.ts'
import { Random, SEED } from '../../support/random.ts'

/** A program that uses systemd's own parser, and prints NAME=value lines (environment.d(5)). */
const GENERATOR = '/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator'

/** The values that a shell has after sourcing the text. */
function shellValues(t: Test, text: string, names: readonly string[]): string[] {
  const file = join(t.testdir(), 'values')
  writeFileSync(file, text)
  const print = names.map(name => `"$${name}"`).join(' ')
  const script = `. "$1"; printf '%s\\0' ${print}`
  return execFileSync('/bin/sh', ['-c', script, 'sh', file], { encoding: 'utf8', env: {} }).split('\0').slice(0, -1)
}

const texts: readonly (readonly [text: string, value: string | undefined, what: string])[] = [
  ['A=b', 'b', 'a bare value'],
  ['A=', '', 'an empty value'],
  ['A=""', '', 'an empty value in quotes'],
  ['A="b c"', 'b c', 'double quotes'],
  ["A='b c'", 'b c', 'single quotes'],
  ["A='b\\c'", 'b\\c', 'no escapes within single quotes'],
  ['A="\\"\\\\\\`\\$"', '"\\`$', 'the four escapes within double quotes'],
  ['A="b\\c"', 'b\\c', 'a backslash that escapes nothing within double quotes'],
  ['A=b\\ c', 'b c', 'an escaped space'],
  ['A=b\\\nc', 'bc', 'a continuation line'],
  ['A="b\\\nc"', 'bc', 'a continuation line within quotes'],
  ['A="b\nc"', 'b\nc', 'a line break within quotes'],
  ['A="b"\'c\'d', 'bcd', 'quoted pieces one after the other'],
  ['A="#b"', '#b', 'a number sign within quotes'],
  ['A=b#c', 'b#c', 'a number sign within a word'],
  ['A=b\nA=c', 'c', 'the last of two'],
  ['  A=b', 'b', 'white space before the name'],
  ['#A=b', undefined, 'a comment'],
  ['#\\\nA=b', 'b', 'a comment that ends in a backslash'],
  ['AA=b', undefined, 'a longer name'],
  ['A', undefined, 'a name alone'],
  ['', undefined, 'an empty text'],
]

test('a value is read as a shell reads it', t => {
  for (const [text, value, what] of texts) {
    t.equal(getValue(text, 'A'), value, what)
    if (value !== undefined) t.same(shellValues(t, `${text}\n`, ['A']), [value], `${what}, by the shell`)
  }
  t.end()
})

test('a text that a shell would refuse is read as systemd reads it', t => {
  for (const [text, value, what] of [
    ['A=b c \t\r\nB=d', 'b c', 'white space within an unquoted value, but not at its end'],
    ['A = b', 'b', 'white space around the equals sign'],
    [';A=b', undefined, 'a comment after a semicolon'],
    ['not an assignment\nA=b', 'b', 'a line without an assignment'],
    ['1=x\nA-B=y\n=z\nA=b', 'b', 'invalid names'],
    ['A="b', 'b', 'an unterminated quote'],
    ['A=b\\', 'b', 'a backslash at the end of the text'],
    ['A="b\\', 'b', 'a backslash at the end of the text within quotes'],
    ['\0\x01\n=\nA=b', 'b', 'control characters'],
  ] as const)
    t.equal(getValue(text, 'A'), value, what)
  t.end()
})

test('setting a value keeps every other line', t => {
  for (const [text, expected, what] of [
    ['', 'A=new\n', 'an empty text'],
    ['B=1\n', 'B=1\nA=new\n', 'appended'],
    ['B=1', 'B=1\nA=new\n', 'after a last line without a line break'],
    ['# c\nA=old\nB=1\n', '# c\nA=new\nB=1\n', 'in its place'],
    ['A=old', 'A=new', 'in a last line without a line break'],
    ['A=1\nB=2\nA=3\n', 'A=1\nB=2\nA=new\n', 'the last of two, which counts'],
    ['\t A = "x\ny" \r\nB=1\r\n', '\t A=new\nB=1\r\n', 'over several lines'],
    ['#A=old\n', '#A=old\nA=new\n', 'beside a comment'],
    ['B="broken off\n', 'A=new\nB="broken off\n', 'before an unterminated quote'],
    ['B=goes on\\', 'A=new\nB=goes on\\', 'before a line whose continuation is missing'],
  ] as const)
    t.equal(setValue(text, 'A', 'new'), expected, what)
  t.end()
})

const PIECES = [
  'A',
  'B',
  'C_1',
  '=',
  '"',
  "'",
  '\\',
  '\n',
  '\r\n',
  '#',
  ';',
  ' ',
  '\t',
  'x',
  '$',
  '`',
  'é',
  '\0',
  'A=',
  '\nB=',
]

test('a value that was set is read back, and no other is changed', t => {
  const random = new Random(SEED)
  for (let round = 0; round < 5_000; round++) {
    const text = random.text(PIECES, 16)
    const value = random.words()
    const name = random.pick(['A', 'B', 'N'])
    const next = setValue(text, name, value)
    const others = ['A', 'B', 'C_1', 'x'].filter(other => other !== name)
    const isKept =
      getValue(next, name) === value &&
      others.every(other => getValue(next, other) === getValue(text, other)) &&
      setValue(next, name, value) === next
    // A new name adds its line, and nothing else.
    const isWhole = getValue(text, name) !== undefined || charactersKept(text, next) === text.length
    if (!isKept || !isWhole) {
      t.fail('a value is lost', { seed: SEED, round, text, name, value, next })
      break
    }
  }
  t.ok(SEED >= 0, `seed ${SEED}`)
  t.end()
})

/** How many characters `before` and `after` share at the start and at the end. */
function charactersKept(before: string, after: string): number {
  let start = 0
  while (start < before.length && before[start] === after[start]) start++
  let end = 0
  while (end < before.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++
  return start + end
}

test('a shell reads what is written', t => {
  const random = new Random(SEED)
  const values = Array.from({ length: 500 }, () => random.words())
  const names = values.map((_, at) => `V${at}`)
  const text = names.reduce((text, name, at) => setValue(text, name, values[at] ?? ''), '# comment\n')
  t.same(shellValues(t, text, names), values, `seed ${SEED}`)
  t.end()
})

test('systemd reads what is written', { skip: needs(GENERATOR) }, t => {
  const random = new Random(SEED)
  // environment.d(5) then expands variables, which does not work with noncharacters.
  const values = Array.from({ length: 500 }, () => random.words().replace(/\$|\p{NChar}/gu, '-'))
  const text = values.reduce((text, value, at) => setValue(text, `V${at}`, value), '# comment\n')
  const config = t.testdir()
  mkdirSync(join(config, 'environment.d'))
  writeFileSync(join(config, 'environment.d/values.conf'), text)
  const printed = execFileSync(GENERATOR, {
    encoding: 'utf8',
    env: { XDG_CONFIG_HOME: config, HOME: config, PATH: '/bin' },
  })
  // Its output is quoted for a shell.
  const names = values.map((_, at) => `V${at}`)
  t.same(shellValues(t, printed, names), values, `seed ${SEED}`)
  t.end()
})
