import { readFileSync } from 'node:fs'
import { test } from 'tap'
import {
  nearestName,
  readStartup,
  setGuarded,
  setName,
  setResolution,
  whyNotName,
} from '../../../hal/format/uxplayrc.ts'
import { argumentsOf, startUxPlay } from '../../support/fakes/uxplay.ts'
import { Random } from '../../support/random.ts'

const SEED = 20_260_801

test('a startup file is read as UxPlay reads it', t => {
  const cases: readonly (readonly [text: string, what: Partial<ReturnType<typeof readStartup>>])[] = [
    ['', { name: undefined, appendsHostName: true, isGuarded: false, resolution: undefined }],
    ['n Lobby\n', { name: 'Lobby', appendsHostName: true }],
    ['n Lobby', { name: 'Lobby' }],
    ['  n   Lobby  \nnh', { name: 'Lobby', appendsHostName: false }],
    ['n "Meeting room"', { name: 'Meeting room' }],
    ["n 'Meeting room'", { name: 'Meeting room' }],
    ['"n" "Meeting room"', { name: 'Meeting room' }],
    ['n Meeting room', { name: 'Meeting' }],
    ['n "Say "hi" now"', { name: 'Say "hi' }],
    ['n "Say \\" now"', { name: 'Say \\" now' }],
    ['n "Not closed', { name: 'Not closed' }],
    ['n "Back\\"', { name: 'Back\\"' }],
    ['n O\'Brien"', { name: 'O\'Brien"' }],
    ['n One\nn Two', { name: 'Two' }],
    ['# n One\n#n Two', { name: undefined }],
    [' # n One', { name: undefined }],
    ['n Lobby # not a comment', { name: 'Lobby' }],
    ['n Lobby -nh -pin', { name: 'Lobby', appendsHostName: false, isGuarded: true }],
    ['n ""', { name: undefined }],
    ['-n Lobby', { name: undefined }],
    ['pin', { isGuarded: true }],
    ['pin 1234', { isGuarded: true }],
    ['pin1234', { isGuarded: false }],
    ['pw "secret word"', { isGuarded: true }],
    ['pw', { isGuarded: true }],
    ['#pin', { isGuarded: false }],
    ['s 1920x1080', { resolution: '1920x1080' }],
    ['s 1920x1080@60', { resolution: '1920x1080' }],
    ['s 0640x0480', { resolution: '640x480' }],
    ['s 0x1080', { resolution: undefined }],
    ['s big', { resolution: undefined }],
    ['s 19200x1080', { resolution: undefined }],
  ]
  for (const [text, what] of cases) t.match(readStartup(text), what, JSON.stringify(text))
  t.same(readStartup('allow A\n# allow B\nallow\nrestrict -allow "C"\n').allowed, ['A', 'C'])
  t.end()
})

test('options are replaced in place, and everything else is kept', t => {
  const text = '# mine\nn Old\nfs\npin 1234\ns 1280x720@30\nvs "a b"\n'
  t.equal(setName(text, 'New', false), '# mine\nn New\nnh\nfs\npin 1234\ns 1280x720@30\nvs "a b"\n')
  t.equal(
    setName(text, 'New one', true),
    '# mine\n# The device\'s name: New one\nn "New one"\nnh\nfs\npin 1234\ns 1280x720@30\nvs "a b"\n',
  )
  t.equal(setGuarded(text, false), '# mine\nn Old\nfs\ns 1280x720@30\nvs "a b"\n')
  t.equal(setGuarded('fs', true), 'fs\npin\n')
  t.equal(setGuarded('pw secret\npin\n', false), '')
  t.equal(setGuarded('h -pw - s 1x1', false), 'h\n', 'a lone hyphen does not make an option of its value')
  t.equal(
    setGuarded('pin "-pw " -#x -"pw"', false),
    '"pw "\n"#x"\n""pw""\n',
    'an option on a line of its own keeps its name',
  )
  t.equal(setResolution(text, '1920x1080'), '# mine\nn Old\nfs\npin 1234\ns 1920x1080@30\nvs "a b"\n')
  t.equal(setResolution(text, ''), '# mine\nn Old\nfs\npin 1234\nvs "a b"\n')
  t.equal(setResolution('', '1920x1080'), 's 1920x1080\n')
  t.equal(
    setName('n Old -reg "a b" -pin 7\n', 'New', false),
    'n New\nnh\nreg "a b"\npin 7\n',
    'other options on the same line',
  )
  t.end()
})

test("a name that was the device's no longer is when somebody edits it", t => {
  const text = setName('', 'Lobby', true)
  t.ok(readStartup(text).isDeviceName)
  t.notOk(readStartup(text.replace('n Lobby', 'n Hall')).isDeviceName)
  t.notOk(readStartup(text.replace('nh\n', '')).isDeviceName)
  t.equal(setName(text, 'Lobby', true), text, 'the same again changes nothing')
  t.equal(setName(text, 'Hall', false), 'n Hall\nnh\n')
  t.end()
})

const NAMES: readonly (readonly [name: string, isTaken: boolean])[] = [
  ['Lobby', true],
  ['Meeting room 4', true],
  ['Büro Zürich ☕', true],
  ["O'Brien's office", true],
  ['19" screen', true],
  ['19\' 3" screen', false],
  ['"quoted"', true],
  ['"quoted" name', true],
  ["'tis", true],
  ['back\\slash and space', true],
  ['ends\\', true],
  ['ends with\\', false],
  [' spaces ', true],
  ['#1', true],
  ['-1', false],
  ['my.local room', false],
  ['x'.repeat(50), true],
  ['x'.repeat(51), false],
  ['é'.repeat(26), false],
]

test('a name is accepted if UxPlay shows it unchanged', t => {
  for (const [name, isTaken] of NAMES) {
    t.equal(whyNotName(name) === undefined, isTaken, name)
    if (isTaken) t.equal(startUxPlay(setName('', name, false)).name, name)
  }
  t.end()
})

test("for a device's name that is not accepted, a similar one is found", t => {
  for (const [name, near] of [
    ['Lobby', 'Lobby'],
    ['- Lobby', 'Lobby'],
    ['19\' 3" screen', "19' 3 screen"],
    ['ends with\\', 'ends with'],
    ['é'.repeat(40), 'é'.repeat(25)],
    ['🖥'.repeat(20), '🖥'.repeat(12)],
    ['box.local', 'box'],
    ['---', 'AirPlay'],
  ] as const)
    t.equal(nearestName(name), near)
  t.end()
})

const PIECES = ['a', 'B', ' ', ' ', "'", '"', '\\', '#', '-', 'é', '☕', '=', '\u2028', '.local', 'n']

test('every accepted name is read back unchanged, whatever else is in the file', t => {
  const random = new Random(SEED)
  const piecesOf = (most: number) => Array.from({ length: random.below(most) + 1 }, () => random.pick(PIECES)).join('')
  let taken = 0
  for (let round = 0; round < 20_000; round++) {
    const text = ['# c', 'fs', 'n Old', 'nh', 'pin 7', 'n "Old one" -nh', 's 1280x720@30', 'vs "x y"']
      .filter(() => random.chance(0.4))
      .map(line => `${line}\n`)
      .join('')
    const wish = piecesOf(12)
    const isDeviceName = random.chance(0.5)
    const name = isDeviceName ? nearestName(wish) : wish
    if (whyNotName(name) !== undefined) {
      if (isDeviceName) t.fail('the nearest name is not taken', { seed: SEED, round, wish, name })
      continue
    }
    taken++
    const next = setName(text, name, isDeviceName)
    const before = startUxPlay(text)
    const after = startUxPlay(next)
    const read = readStartup(next)
    const isKept =
      after.name === name &&
      !after.appendsHostName &&
      after.pin === before.pin &&
      after.guard === before.guard &&
      after.display.join() === before.display.join() &&
      read.name === name &&
      read.isDeviceName === isDeviceName &&
      setName(next, name, isDeviceName) === next &&
      next.includes('# c\n') === text.includes('# c\n')
    if (!isKept) {
      t.fail('a name is lost', { seed: SEED, round, text, name, next })
      break
    }
  }
  t.ok(taken > 8_000, `${taken} names, seed ${SEED}`)
  t.end()
})

test('any text is read as UxPlay reads it', t => {
  const random = new Random(SEED)
  const pieces = [...PIECES, '\n', '\n', 'n ', 'nh', 'pin', 's 12x34', ' -']
  for (let round = 0; round < 20_000; round++) {
    const text = Array.from({ length: random.below(16) }, () => random.pick(pieces)).join('')
    const argv = argumentsOf(text)
    const at = argv.lastIndexOf('-n')
    const value = argv[at + 1]
    const expected = {
      name: at < 0 || value?.startsWith('-') ? undefined : value,
      appendsHostName: !argv.includes('-nh'),
      isGuarded: argv.includes('-pin'),
    }
    const { name, appendsHostName, isGuarded } = readStartup(text)
    if (JSON.stringify(expected) !== JSON.stringify({ name, appendsHostName, isGuarded })) {
      t.same({ name, appendsHostName, isGuarded }, expected, JSON.stringify({ seed: SEED, round, text }))
      break
    }
  }
  t.pass(`seed ${SEED}`)
  t.end()
})

test('UxPlay starts with the startup files of the fixtures', t => {
  for (const [device, started] of [
    ['receiver', { name: 'Lobby', appendsHostName: false, guard: 0 }],
    ['raspberry-pi-4', { name: 'Meeting room 4', appendsHostName: false, guard: 1, pin: 7, display: [1920, 1080, 30] }],
    ['x86-box', { name: 'Board room', appendsHostName: true, display: [3840, 2160, 0] }],
  ] as const)
    t.match(
      startUxPlay(readFileSync(new URL(`../../fixtures/${device}/etc/uxplayrc`, import.meta.url), 'utf8')),
      started,
    )
  t.end()
})
