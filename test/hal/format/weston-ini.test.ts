import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { getOutput, outputShownBy, setOutput } from '../../../hal/format/weston-ini.ts'
import { Random } from '../../support/random.ts'

const TWO = `# what is where
[core]
mode=not this

[output]
name=HDMI-A-1
mode=1920x1080@60
[output]
# the left one
name=DP-1
transform=rotate-90
mode=  preferred
mode=current
[shell]
name=DP-2
mode=off
`

t.test('the first value in the first section of an output counts', async t => {
  const cases: readonly (readonly [text: string, name: string, key: string, value: string | undefined])[] = [
    [TWO, 'HDMI-A-1', 'mode', '1920x1080@60'],
    [TWO, 'DP-1', 'mode', 'preferred'],
    [TWO, 'DP-1', 'transform', 'rotate-90'],
    [TWO, 'HDMI-A-1', 'transform', undefined],
    [TWO, 'DP-2', 'mode', undefined],
    ['[output]\nname=A\nmode=off\n[output]\nname=A\nmode=current\n', 'A', 'mode', 'off'],
    ['[output]\nmode=off\nname= A \t\n', 'A', 'mode', 'off'],
    ['[output]\nname=A\nname=B\nmode=off', 'B', 'mode', undefined],
    ['[output]\r\nname=A\r\nmode=off\r\n', 'A', 'mode', 'off'],
    ['[output]\nname=A\n#mode=off\n mode=off\nmode =off\n', 'A', 'mode', undefined],
    ['[output]\nname=A\nmode=a=b\n', 'A', 'mode', 'a=b'],
    ['[output]\nname=A\nmode=\n', 'A', 'mode', ''],
    ['[outputs]\nname=A\nmode=off\n', 'A', 'mode', undefined],
    ['', 'A', 'mode', undefined],
  ]
  for (const [text, name, key, value] of cases) t.equal(getOutput(text, name, key), value, JSON.stringify(text))
})

t.test('a value is replaced in place', async t => {
  const cases: readonly (readonly [text: string, expected: string])[] = [
    ['[output]\nname=A\nmode=off\nscale=2\n', '[output]\nname=A\nmode=new\nscale=2\n'],
    ['[output]\nname=A\nmode=\t off \t\nscale=2\n', '[output]\nname=A\nmode=\t new \t\nscale=2\n'],
    ['[output]\nname=A\nmode=off', '[output]\nname=A\nmode=new'],
    ['[output]\nname=A\nmode=', '[output]\nname=A\nmode=new'],
    ['[output]\nname=A\nmode= \n', '[output]\nname=A\nmode= new\n'],
    ['[output]\r\nname=A\r\nmode=off\r\n', '[output]\r\nname=A\r\nmode=new\r\n'],
    ['[output]\nname=A\nmode=off\nmode=current\n', '[output]\nname=A\nmode=new\nmode=current\n'],
    ['[output]\nname=A\nscale=2', '[output]\nname=A\nmode=new\nscale=2'],
    ['[output]\nscale=2\nname=A', '[output]\nscale=2\nname=A\nmode=new\n'],
    ['[output]\r\nname=A\r\n\r\n[core]\r\n', '[output]\r\nname=A\r\nmode=new\r\n\r\n[core]\r\n'],
    ['[core]\n# end', '[core]\n# end\n\n[output]\nname=A\nmode=new\n'],
    ['[output]\nname=B\n', '[output]\nname=B\n\n[output]\nname=A\nmode=new\n'],
    ['', '[output]\nname=A\nmode=new\n'],
  ]
  for (const [text, expected] of cases) t.equal(setOutput(text, 'A', 'mode', 'new'), expected, JSON.stringify(text))
})

t.test('a clone shows the same as another output', async t => {
  const text = '[output]\nname=A\nsame-as=B\n[output]\nname=B\nsame-as=C\n[output]\nname=L\nsame-as=L\n'
  for (const [name, shown] of Object.entries({ A: 'C', B: 'C', C: 'C', D: 'D', L: 'L' }))
    t.equal(outputShownBy(text, name), shown)
})

const NAMES = ['A', 'HDMI-A-1', 'none']
const KEYS = ['name', 'mode', 'transform', 'same-as', 'scale']
const LINES = [
  '[output]',
  '[core]',
  'name=A',
  'name= A',
  'name=HDMI-A-1 ',
  'mode=off',
  'mode=',
  'mode=\t1x1 ',
  'scale=2',
]
const ODD = [
  ' mode=off',
  'mode =off',
  '#mode=off',
  '',
  'transform=90',
  'b\u00e9t\u00e9=\u00a0',
  'mode=a=b',
  'mode=x\u000b',
]
const MALFORMED = ['[output', '[output] ', 'mode', '=', ' ', '[core]x']

function randomText(random: Random, pieces: readonly string[], ends: readonly string[]): string {
  const lines = Array.from({ length: random.below(14) }, () => random.pick(pieces) + random.pick(ends))
  const text = lines.join('')
  return random.chance(0.3) ? text.replace(/\r?\n$/, '') : text
}

t.test('every other byte is kept, and every other value', async t => {
  const random = new Random(8_086)
  for (let round = 0; round < 5_000; round++) {
    const ends = random.chance(0.2) ? ['\n', '\r\n'] : ['\n']
    const before = randomText(random, [...LINES, ...LINES, ...ODD, ...MALFORMED], ends)
    const name = random.pick(NAMES)
    const key = random.pick(['mode', 'transform'])
    const after = setOutput(before, name, key, 'new@60')
    const [old, added] = difference(before, after)
    const isSound =
      getOutput(after, name, key) === 'new@60' &&
      setOutput(after, name, key, 'new@60') === after &&
      old.length <= (getOutput(before, name, key) ?? '').length &&
      !old.includes('\n') &&
      (getOutput(before, name, key) === undefined) === added.includes('\n') &&
      NAMES.every(other =>
        KEYS.every(
          one =>
            (other === name && (one === key || one === 'name')) ||
            getOutput(before, other, one) === getOutput(after, other, one),
        ),
      )
    if (!isSound) return void t.fail(JSON.stringify({ round, before, after, name, key }))
  }
  t.pass()
})

/** The part of each text that differs: without the beginning and the end that they share. */
function difference(one: string, other: string): [string, string] {
  let start = 0
  while (start < one.length && one[start] === other[start]) start++
  let end = 0
  while (end < Math.min(one.length, other.length) - start && one.at(-1 - end) === other.at(-1 - end)) end++
  return [one.slice(start, one.length - end), other.slice(start, other.length - end)]
}

/** Reads values with weston's own parser, for pairs of output and key; null if it rejects the file. */
const PARSER = `
import ctypes, glob, json, sys
lib = ctypes.CDLL(glob.glob('/usr/lib/*/libweston-[0-9]*.so.0')[0])
for name in 'parse', 'get_section': getattr(lib, 'weston_config_' + name).restype = ctypes.c_void_p
def value(config, output, key):
    section = lib.weston_config_get_section(ctypes.c_void_p(config), b'output', b'name', output.encode())
    found = ctypes.c_char_p()
    if section is None: return None
    lib.weston_config_section_get_string(ctypes.c_void_p(section), key.encode(), ctypes.byref(found), None)
    return None if found.value is None else found.value.decode('latin1')
print(json.dumps([
    config and [value(config, *ask) for ask in asks]
    for path, asks in json.load(sys.stdin)
    for config in [lib.weston_config_parse(path.encode())]
]))
`

t.test("values are what weston's own parser reads", { skip: whyNoParser() }, async t => {
  const folder = mkdtempSync(join(tmpdir(), 'weston-ini-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const random = new Random(1_701)
  const asks = NAMES.flatMap(name => KEYS.map(key => [name, key] as const))
  const texts = Array.from({ length: 2_000 }, (_, at) => {
    const read = `[core]\n${randomText(random, [...LINES, ...LINES, ...ODD], ['\n'])}`
    return at % 2 ? setOutput(read, random.pick(NAMES), 'mode', '800x600@60') : read
  })
  const files = texts.map((text, at) => {
    writeFileSync(join(folder, `${at}.ini`), Buffer.from(text, 'latin1'))
    return [join(folder, `${at}.ini`), asks]
  })
  const answers = parse(files)
  let taken = 0
  for (const [at, text] of texts.entries()) {
    const answer = answers[at]
    if (!answer) continue
    taken++
    const ours = asks.map(([name, key]) => getOutput(text, name, key) ?? null)
    if (JSON.stringify(ours) !== JSON.stringify(answer)) return void t.strictSame(ours, answer, JSON.stringify(text))
  }
  t.ok(taken > 1_800, `${taken} of ${texts.length} were taken`)
})

function parse(files: readonly unknown[]): readonly (readonly (string | null)[] | null)[] {
  return JSON.parse(
    execFileSync('python3', ['-c', PARSER], { input: JSON.stringify(files), stdio: 'pipe', encoding: 'utf8' }),
  )
}

function whyNoParser(): string | false {
  try {
    parse([])
    return false
  } catch {
    return 'install python3 weston'
  }
}
