import { execFileSync } from 'node:child_process'
import { lstatSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { getValues, getWords, setValues, splitSections } from '../../../hal/format/ini.ts'
import { Random, SEED } from '../../support/random.ts'

/** `Alias=` in `[Install]`: systemd's reading of it can be seen without a running manager. */
const reading: readonly (readonly [text: string, values: readonly string[], what: string])[] = [
  ['[Install]\nAlias=a.service\n', ['a.service'], 'one'],
  ['[Install]\nAlias=a.service\nAlias=b.service\n', ['a.service', 'b.service'], 'two'],
  ['[Install]\n  Alias =  a.service  \n', ['a.service'], 'white space around key and value'],
  ['[Install]\r\nAlias=a.service\r\n', ['a.service'], 'DOS line breaks'],
  ['[Install]\nAlias=a.service', ['a.service'], 'a last line without a line break'],
  ['[Install]\n#Alias=a.service\n ;Alias=b.service\n', [], 'comments'],
  ['[Unit]\nAlias=a.service\n[Install]\n[Unit]\n', [], 'another section'],
  ['[Install]\n[Unit]\n[Install]\nAlias=a.service\n', ['a.service'], 'a section that is there twice'],
  ['[Install]\nAlias=\\\na.service\n', ['a.service'], 'a continuation line'],
  ['[Install]\nAlias=\\\n# comment\n; comment\na.service\n', ['a.service'], 'a comment before a continuation line'],
  ['[Install]\nAlias=a.service\\', ['a.service'], 'a last line whose continuation is missing'],
  ['[Install]\nAlias=a.service\\\n# comment', ['a.service'], 'the same after a comment'],
  ['[Install]\n\\\nAlias=a.service\n', ['a.service'], 'a line with nothing but a backslash'],
  ['[Unit]\nDescription=x\\\n[Install]\nAlias=a.service\n', [], 'a section header in a continuation line'],
  ['[Unit]\nDescription=x\\\\\n[Install]\nAlias=a.service\n', ['a.service'], 'an escaped backslash'],
  ['[Unit]\nDescription=x\\ \n[Install]\nAlias=a.service\n', ['a.service'], 'a backslash before white space'],
  ['\uFEFF[Install]\nAlias=a.service\n', ['a.service'], 'a byte-order mark'],
]

test('values are read as systemd reads them', t => {
  const root = t.testdir({ etc: { systemd: { system: {} } } })
  const folder = join(root, 'etc/systemd/system')
  for (const [text, values, what] of reading) {
    t.same(getValues(text, 'Install', 'Alias'), values, what)
    writeFileSync(join(folder, 'unit.service'), text)
    try {
      execFileSync('systemctl', [`--root=${root}`, 'enable', 'unit.service'], { stdio: 'ignore' })
    } catch {
      t.comment(`systemctl refuses: ${what}`)
    }
    const links = readdirSync(folder).filter(name => lstatSync(join(folder, name)).isSymbolicLink())
    t.same(links.sort(), values, `${what}, by systemctl`)
    rmSync(folder, { recursive: true })
    mkdirSync(folder)
  }
  t.end()
})

test('setting values keeps every other line', t => {
  for (const [text, values, expected, what] of [
    ['', ['a'], '[Time]\nNTP=a\n', 'an empty text'],
    ['', [], '', 'an empty text and no values'],
    ['[Time]\n', ['', 'a'], '[Time]\nNTP=\nNTP=a\n', 'two'],
    ['# c\n[Time]\nX=1\n', ['a'], '# c\n[Time]\nNTP=a\nX=1\n', 'at the start of the section'],
    ['[Time]\nX=1\nNTP=old\nY=2\n', ['a'], '[Time]\nX=1\nNTP=a\nY=2\n', 'in its place'],
    ['[Time]\nNTP=1\nX=1\nNTP=2\n[B]\nNTP=3\n', ['a'], '[Time]\nNTP=a\nX=1\n[B]\nNTP=3\n', 'of several'],
    ['[Time]\nNTP=1 \\\n 2\nX=1\n', ['a'], '[Time]\nNTP=a\nX=1\n', 'with a continuation line'],
    ['[Time]\nNTP=1 \\\n# c\n 2\n', ['a'], '[Time]\nNTP=a\n# c\n', 'with a comment before the continuation line'],
    ['[Time]\nNTP=1\nX=1\n', [], '[Time]\nX=1\n', 'none'],
    ['[B]\nX=1', ['a'], '[B]\nX=1\n\n[Time]\nNTP=a\n', 'a missing section'],
    ['[B]\nX=1\\\n[Time]\n', ['a'], '[B]\nX=1\\\n[Time]\n\n[Time]\nNTP=a\n', 'a section header in a continuation line'],
    ['[B]\nX=1\\', ['a'], '[B]\nX=1\\\n\n[Time]\nNTP=a\n', 'after a line whose continuation is missing'],
    ['[Time] \\\n\nX=1\n', ['a'], '[Time] \\\n\nNTP=a\nX=1\n', 'after a section header with a continuation line'],
    ['#NTP=old\n[Time]\n#NTP=old\n', ['a'], '#NTP=old\n[Time]\nNTP=a\n#NTP=old\n', 'beside comments'],
  ] as const)
    t.equal(setValues(text, 'Time', 'NTP', values), expected, what)
  t.end()
})

const PIECES = [
  '[Time]',
  '[B]',
  'NTP=',
  'X=',
  '\n',
  '\n',
  '\n',
  '\\',
  '\\\n',
  '\r\n',
  '#',
  ';',
  ' ',
  'v',
  '=',
  '[',
  ']',
  'é',
]

test('values that were set are read back, and no others are changed', t => {
  const random = new Random(SEED)
  for (let round = 0; round < 5_000; round++) {
    const text = random.text(PIECES, 20)
    const values = Array.from({ length: random.below(4) }, () => random.pick(['', 'a', 'a b', 'x=y', '[B]', '#']))
    const next = setValues(text, 'Time', 'NTP', values)
    const keep = ([section, key]: readonly [string, string]) => getValues(text, section, key)
    const kept = ([section, key]: readonly [string, string]) => getValues(next, section, key)
    const others = [
      ['Time', 'X'],
      ['B', 'NTP'],
      ['B', 'X'],
      ['', 'X'],
      ['', 'NTP'],
    ] as const
    const comments = (lines: string) => lines.split('\n').filter(line => /^\s*[#;]/.test(line))
    const isRight =
      JSON.stringify(getValues(next, 'Time', 'NTP')) === JSON.stringify(values) &&
      JSON.stringify(others.map(kept)) === JSON.stringify(others.map(keep)) &&
      JSON.stringify(comments(next)) === JSON.stringify(comments(text)) &&
      setValues(next, 'Time', 'NTP', values) === next
    if (!isRight) {
      t.fail('a value is lost', { seed: SEED, round, text, values, next })
      break
    }
  }
  t.ok(SEED >= 0, `seed ${SEED}`)
  t.end()
})

test('the words of a list are those after the last empty assignment', t => {
  for (const [text, words] of [
    ['', []],
    ['NTP=', []],
    ['NTP=a  b\tc', ['a', 'b', 'c']],
    ['NTP=a\nNTP=b a', ['a', 'b', 'a']],
    ['NTP=a\nNTP=\nNTP=b', ['b']],
    ['NTP=a\nNTP=', []],
  ] as const)
    t.strictSame(getWords(`[Time]\n${text}\n`, 'Time', 'NTP'), words, text)
  t.end()
})

test('a text is cut into its sections', t => {
  for (const parts of [
    [['', '']],
    [['', 'a=b\n']],
    [
      ['', ''],
      ['A', '[A]\nx=1\n\n'],
      ['B', '[B]\n'],
    ],
    [
      ['', '# about all\n'],
      ['A', '[A]\n# of A\n\n'],
      ['A', '# about this\n; one\n[A]\nx=\\\n[B]\n'],
      ['C', ' [C] \n'],
    ],
    [['', '# about all']],
  ] as const) {
    const text = parts.map(([, part]) => part).join('')
    t.strictSame(
      splitSections(text).map(({ name, text }) => [name, text]),
      parts,
      text,
    )
  }
  const random = new Random(SEED)
  for (let round = 0; round < 2_000; round++) {
    const text = random.text(PIECES, 20)
    const joined = splitSections(text)
      .map(part => part.text)
      .join('')
    if (joined !== text) t.equal(joined, text, `seed ${SEED}`)
  }
  t.end()
})

test('a section without a name ends the one before it', t => {
  const text = '[Address]\nAddress=192.0.2.1/24\n[]\nA=b\n'
  t.same(
    splitSections(text).map(({ text }) => text),
    ['', '[Address]\nAddress=192.0.2.1/24\n', '[]\nA=b\n'],
  )
  t.same(getValues(text, 'Address', 'A'), [])
  t.end()
})
