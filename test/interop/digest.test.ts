/** The digest of the configuration, as somebody else computes it: by another implementation of RFC 8785. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import canonicalize from 'canonicalize'
import t from 'tap'
import { type JsonValue, toCanonicalJson } from '../../src/json.ts'
import { temporaryFolder } from '../support/folder.ts'
import { Random, SEED } from '../support/random.ts'
import { receiverd, startReceiver } from './support.ts'

/** As in RFC 8785 §3.2.2 and §3.2.3, and other values with several spellings. */
const CASES: readonly JsonValue[] = [
  {
    numbers: [333333333.3333333, 1e30, 4.5, 2e-3, 0.000000000000000000000000001],
    string: '\u20ac$\u000f\u000aA\'\u0042\u0022\u005c\\"/',
    literals: [null, true, false],
  },
  // By code points, the emoji would come after U+FB33.
  {
    '\u20ac': 1,
    '\r': 2,
    '\ufb33': 3,
    '1': 4,
    '\u{1f600}': 5,
    '\u0080': 6,
    ö: 7,
    '10': 8,
    '2': 9,
    A: 10,
    a: 11,
    '': 12,
  },
  [0, -0, 1e21, 1e-7, 123456789012345680000, 5e-324, 1.7976931348623157e308, 9007199254740992, 0.1 + 0.2, 1e23],
  ['\u2028\u2029\u007f\u0085', '\b\t\n\f\r\u0001\u001f', '</script>', 'é', 'e\u0301', '\u{10ffff}'],
  JSON.parse('{"__proto__":{"constructor":[]},"toString":{}}'),
  [],
  {},
  'alone',
]

t.test('canonical JSON is that of another implementation', async t => {
  for (const [n, value] of CASES.entries()) t.equal(toCanonicalJson(value), canonicalize(value), `case ${n}`)
  t.equal(
    toCanonicalJson(CASES[0]),
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    'as RFC 8785 has it',
  )
  const random = new Random(SEED)
  for (let n = 0; n < 2_000; n++) {
    const value = randomValue(random, 4)
    t.equal(toCanonicalJson(value), canonicalize(value))
  }
  for (const value of [Number.NaN, Number.NEGATIVE_INFINITY, ['\ud800'], { '\udc00': 1 }])
    t.throws(() => toCanonicalJson(value), TypeError)
})

function randomValue(random: Random, depth: number): JsonValue {
  const count = random.below(5)
  switch (random.below(depth > 0 ? 6 : 4)) {
    case 0:
      return new DataView(Uint8Array.from({ length: 8 }, () => random.below(256)).buffer).getFloat64(0) || 0
    case 1:
      return randomText(random)
    case 2:
      return random.below(1_000_000) / 100
    case 3:
      return [null, true, false][random.below(3)] ?? null
    case 4:
      return Array.from({ length: count }, () => randomValue(random, depth - 1))
    default:
      return Object.fromEntries(
        Array.from({ length: count }, () => [randomText(random), randomValue(random, depth - 1)]),
      )
  }
}

/** Of characters from all planes, with no surrogate alone. */
function randomText(random: Random): string {
  const limits = [0x80, 0x800, 0xd800, 0x110000]
  const codes = Array.from({ length: random.below(6) }, () => random.below(limits[random.below(4)] ?? 0))
  return String.fromCodePoint(...codes.filter(code => code < 0xd800 || code > 0xdfff))
}

t.test('the digest is that of the settings that are saved without identity', async t => {
  const receiver = await startReceiver(t)
  const digest = async () => {
    const { configurationDigest } = (await (await receiver.fetch('/status')).json()) as { configurationDigest: string }
    const metrics = await (await receiver.fetch('/metrics')).text()
    t.match(metrics, `\nreceiverd_configuration_info{digest="${configurationDigest}"} 1\n`)
    return configurationDigest
  }
  const file = join(temporaryFolder(t), 'settings.json')
  const expected = async () => {
    const at = ['--listen', new URL(receiver.url).host, '--root', receiver.root]
    const saved = await receiverd(['config', 'save', ...at, file])
    t.match(saved, { status: 0, stderr: '' })
    const { settings } = JSON.parse(readFileSync(file, 'utf8')) as { settings: object }
    return createHash('sha256')
      .update(canonicalize(settings) ?? '')
      .digest('hex')
  }
  const first = await digest()
  t.equal(first, await expected())
  const changes = [
    { timezone: 'Asia/Tokyo' },
    { ntp: { servers: ['ntp.example.net'] } },
    { moderation: { approval: 'none', timeoutS: 77 } },
  ]
  const seen = [first]
  for (const change of changes) {
    t.equal((await receiver.patch(change)).status, 200, JSON.stringify(change))
    const next = await digest()
    t.equal(next, await expected())
    t.notOk(seen.includes(next), 'another one')
    seen.push(next)
  }
  const same = { hostname: 'room-7', deviceName: 'Großer Saal 🎬', airplay: { name: 'Saal' } }
  t.equal((await receiver.patch(same)).status, 200)
  t.equal(await digest(), seen.at(-1), 'without names')
  const networks = [{ ssid: 'Office', password: 'correct horse', hidden: false }]
  t.equal((await receiver.patch({ wifi: { networks } })).status, 200)
  t.equal(await digest(), seen.at(-1), 'without secrets')
})
