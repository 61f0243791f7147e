/** No text makes us wait: every pattern, and every parser, takes time in proportion to its text. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import ts from 'typescript'
import { playbackControl } from '../../hal/format/amixer.ts'
import { closest } from '../../hal/format/closest.ts'
import { globMatches } from '../../hal/format/glob.ts'
import { renameLocalHost } from '../../hal/format/hosts.ts'
import { getValues, setValues, splitSections } from '../../hal/format/ini.ts'
import { parseCidr, prefixOfMask } from '../../hal/format/ip.ts'
import { getValue, setValue } from '../../hal/format/key-value.ts'
import { configurationOf, editNetworkFile, matches } from '../../hal/format/network-file.ts'
import { printfDecode } from '../../hal/format/printf.ts'
import { nearestName, readStartup, setGuarded, setName, setResolution, whyNotName } from '../../hal/format/uxplayrc.ts'
import { getOutput, setOutput } from '../../hal/format/weston-ini.ts'
import { connectedIn, stationsIn } from '../../hal/format/wpa-cli.ts'
import { controlFolder, editWpa, readWpa } from '../../hal/format/wpa-supplicant.ts'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { modesOf } from '../../hal/settings/display/connectors.ts'
import { modeIn } from '../../hal/settings/display/weston.ts'
import { parseHostname } from '../../hal/settings/hostname.ts'
import { editDropIn, effectiveServers } from '../../hal/settings/ntp.ts'
import { parseEtags, preferredWait, prefers } from '../../src/http/conditional.ts'

/** As much as a file or a request may hold. */
const SIZE = 64 * 1024
/** Milliseconds for a pattern, and for a parser, which applies several of them and edits the text as well. */
const PATTERN_MS = 50
const READER_MS = 250
/** A garbage collection takes milliseconds, so the fastest of some tries counts. */
const TRIES = 5
/** For a text four times as long, a linear reader takes four times as long, and a quadratic one sixteen times. */
const SHORTER = 4
const QUADRATIC = 10
/** A busy machine may take so many times as long, and no reader more, however linear. */
const BUSY = 4

/** The fastest of some tries, in milliseconds of processor time: the machine may be busy with something else. */
function fastest(work: () => unknown, enoughMs = 0): number {
  let best = Number.POSITIVE_INFINITY
  for (let n = 0; n < TRIES && best > enoughMs; n++) {
    const start = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(start)
    best = Math.min(best, (user + system) / 1000)
  }
  return best
}

/** Whether a text takes longer than it may because of its length, and not because this machine is slow. */
function isSlow(limitMs: number, text: string, read: (text: string) => unknown): boolean {
  const whole = fastest(() => read(text), limitMs)
  if (whole <= limitMs) return false
  if (whole > BUSY * limitMs) return true
  const part = text.slice(0, text.length / SHORTER) + text.slice(-2)
  return whole > QUADRATIC * fastest(() => read(part))
}

/** Texts that repeat something and then break off, which makes a pattern backtrack. */
function nastyTexts(pieces: readonly string[], ends: readonly string[], beginnings = ['']): readonly string[] {
  return beginnings.flatMap(beginning =>
    pieces.flatMap(piece => {
      const repeated = beginning + piece.repeat(SIZE / piece.length)
      return ends.map(end => repeated.slice(0, SIZE - end.length) + end)
    }),
  )
}

const CHARACTERS = ['aZ01 \t\n.:-_/@=#;%,!é🎬\0', '\\"\'[]*?{}$`<>|+^()'].flatMap(all => [...all])
const PIECES = [
  ...[
    'a.',
    'a-',
    '-a',
    '1.',
    '::',
    'a:',
    'a/',
    ' a',
    'a ',
    '0x',
    '1x1',
    '1x1@1 ',
    '\\\\\n',
    '\\\n',
    'a\n',
    ' \n',
    '\r\n',
  ],
  ...['[a', '[]', '[!', '*a', '*?', 'a=', 'a=b\n', '[a]\n', '"a', '" "', '\\"', "' '", '# a\n', ';\n', ' [1%]', "',1"],
  ...[
    '127.0.1.1 a\n',
    '[Route]\nGateway=a\n',
    '[Match]\nName=*\n',
    'NTP=a\n',
    'network={\nssid="a"\npsk="12345678"\n}\n',
    '\\x41',
    'id=1\nssid=a\n====\n',
    '[output]\nname=a\n',
    'Simple mixer control ',
  ],
]

interface Found {
  readonly where: string
  readonly pattern: RegExp
}

/** The regular expressions in the sources of hal/. */
function literals(): readonly Found[] {
  const hal = new URL('../../hal', import.meta.url).pathname
  const files = readdirSync(hal, { recursive: true, encoding: 'utf8' }).filter(name => name.endsWith('.ts'))
  return files.flatMap(name => {
    const source = ts.createSourceFile(name, readFileSync(join(hal, name), 'utf8'), ts.ScriptTarget.ESNext)
    const found: Found[] = []
    const visit = (node: ts.Node): void => {
      if (ts.isRegularExpressionLiteral(node)) {
        const end = node.text.lastIndexOf('/')
        found.push({ where: name, pattern: new RegExp(node.text.slice(1, end), node.text.slice(end + 1)) })
      }
      ts.forEachChild(node, visit)
    }
    visit(source)
    return found
  })
}

/** The patterns of strings in a schema. */
function patternsIn(schema: object, where: string): readonly Found[] {
  return Object.entries(schema).flatMap(([key, value]) => {
    if (key === 'pattern' && typeof value === 'string') return [{ where, pattern: new RegExp(value, 'u') }]
    return typeof value === 'object' && value !== null ? patternsIn(value, where) : []
  })
}

/** The words of a pattern: a text that begins so gets further into it. */
function wordsOf({ source }: RegExp): string[] {
  const words = source.replace(/\\[dDwWsSbB]/g, '\0').match(/[A-Za-z[" ']{2,}/g) ?? []
  return ['', ...new Set(words.map(word => word.replaceAll('[', '')))]
}

test('every pattern takes time in proportion to its text', async t => {
  const settings = registry(new System('/nowhere'))
  const all = [...literals(), ...settings.flatMap(({ name, schema }) => patternsIn(schema, name))]
  const found = [...new Map(all.map(one => [String(one.pattern), one])).values()]
  t.ok(found.length > 60, `${found.length} patterns`)
  for (const { where, pattern } of found) {
    const texts = nastyTexts([...CHARACTERS, ...PIECES], ['', '!\n'], wordsOf(pattern).slice(0, 3))
    const slow = texts.filter(text => isSlow(PATTERN_MS, text, text => text.replace(pattern, '')))
    t.strictSame(
      slow.map(text => text.slice(0, 40)),
      [],
      `${where}: ${pattern}`,
    )
  }
})

/** Everything that reads a text of a file, of a command, or of a client. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  playbackControl,
  parseHostname,
  readStartup,
  nearestName,
  whyNotName,
  parseCidr,
  prefixOfMask,
  splitSections,
  'globMatches, a pattern': text => globMatches(text, 'enp0s31f6'),
  'globMatches, a name': text => globMatches('*a*b', text),
  renameLocalHost: text => renameLocalHost(text, 'a', 'b'),
  getValues: text => getValues(text, 'Time', 'NTP'),
  setValues: text => setValues(text, 'Time', 'NTP', ['a']),
  'setValues, many': text => setValues(`[Time]\n${text.replaceAll('a', 'NTP=')}`, 'Time', 'NTP', ['a']),
  getValue: text => getValue(text, 'LANG'),
  setValue: text => setValue(text, 'LANG', 'C'),
  matches: text => matches(text, { Name: 'eth0', SSID: null }),
  configurationOf,
  editNetworkFile: text => editNetworkFile(text, 'eth0', { method: 'static', address: '', gateway: '', dns: [] }, text),
  setGuarded: text => setGuarded(text, true),
  setName: text => setName(text, 'a', true),
  setResolution: text => setResolution(text, ''),
  getOutput: text => getOutput(text, 'a', 'mode'),
  setOutput: text => setOutput(text, 'a', 'mode', 'b'),
  modeIn: text => modeIn(`[output]\nname=a\nmode=${text}`, 'a'),
  modesOf: text => modesOf(text.split('\n').slice(0, 512), []),
  effectiveServers: text => effectiveServers([`[Time]\nNTP=${text}`]),
  editDropIn: text => editDropIn(text, []),
  readWpa,
  'readWpa, a block': text => readWpa(`network={\n\tssid="a"\n${text}\n}\n`),
  editWpa: text => editWpa(text, { country: 'DK', networks: [{ ssid: 'a', password: '', hidden: false }] }),
  controlFolder,
  printfDecode,
  connectedIn,
  stationsIn,
  closest: text => closest(text, ['hostname']),
  parseEtags,
  preferredWait,
  prefers: text => prefers(text, 'text/event-stream', 'application/json'),
}

test('every reader takes time in proportion to its text', async t => {
  const texts = nastyTexts([...PIECES, ...CHARACTERS.slice(0, 8)], ['!'])
  for (const [name, read] of Object.entries(READERS)) {
    const slow = texts.filter(text => isSlow(READER_MS, text, read))
    t.strictSame(
      slow.map(text => text.slice(0, 40)),
      [],
      name,
    )
  }
})
