/** Parsers of texts by commands, the kernel, clients and the network: against other readers, or the writer of the text. */
import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { BlockList, isIP } from 'node:net'
import { HalError } from '../../../hal/errors.ts'
import { cardNumbers, playbackControl } from '../../../hal/format/amixer.ts'
import { foundIn } from '../../../hal/format/avahi-browse.ts'
import { serviceGroup } from '../../../hal/format/avahi-service.ts'
import { masked, whyNoBundleUrl } from '../../../hal/format/bundle-url.ts'
import { selfSigned } from '../../../hal/format/certificate.ts'
import { closest } from '../../../hal/format/closest.ts'
import { readEdid } from '../../../hal/format/edid.ts'
import { globMatches } from '../../../hal/format/glob.ts'
import { isWithin, parseAddress, parseCidr, reachable } from '../../../hal/format/ip.ts'
import { archivedLocales } from '../../../hal/format/locale-archive.ts'
import { printfDecode } from '../../../hal/format/printf.ts'
import { bundleIn, percentIn, propertyIn, refusalIn, slotsIn, textIn } from '../../../hal/format/rauc.ts'
import { compareVersions } from '../../../hal/format/semver.ts'
import { connectedIn, networksOf, signalIn, stationsIn } from '../../../hal/format/wpa-cli.ts'
import { parseJson, toCanonicalJson, toJsonLine } from '../../../src/json.ts'
import { commentedOut, parseReceiverTxt } from '../../../src/system/card/receiver-txt.ts'
import type { Input } from '../input.ts'
import { must, type Target } from '../target.ts'

type Reader = (input: Input) => void

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })

/** Bytes as wpa_supplicant prints them: printf_encode() in its common.c. */
function printfEncode(bytes: Buffer): string {
  const escapes: Readonly<Record<number, string>> = { 34: '\\"', 92: '\\\\', 27: '\\e', 10: '\\n', 13: '\\r', 9: '\\t' }
  return [...bytes]
    .map(
      byte =>
        escapes[byte] ??
        (byte >= 32 && byte <= 126 ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`),
    )
    .join('')
}

const printf: Reader = input => {
  const bytes = input.rest()
  must(printfDecode(printfEncode(bytes)).equals(bytes), 'a name is not read back', () => bytes.toString('latin1'))
  printfDecode(bytes.toString('latin1'))
}

const stations: Reader = input => {
  if (input.flag()) {
    const { stations } = stationsIn(input.text())
    for (const { ssid, signalDbm, id } of networksOf(stations, 8).map(network => ({ id: 0, ...network })))
      must(
        signalDbm < 0 && ssid !== '' && ssid.isWellFormed() && Number.isInteger(id),
        'no network is like that',
        () => stations,
      )
    return
  }
  const made = Array.from({ length: 1 + input.below(6) }, (_, id) => ({
    id,
    ssid: input.chunk().toString().toWellFormed(),
    level: -1 - input.byte(),
    age: input.byte(),
  }))
  const text = made
    .map(
      ({ id, ssid, level, age }) =>
        `id=${id}\nlevel=${level}\nage=${age}\nflags=[WPA2-PSK-CCMP][ESS]\nssid=${printfEncode(Buffer.from(ssid))}\n====\n`,
    )
    .join('')
  const expected = made
    .filter(({ ssid }) => ssid !== '' && Buffer.byteLength(ssid) <= 32 && !/^\0+$/.test(ssid))
    .map(({ id, ssid, level, age }) => ({ id, ssid, signalDbm: level, ageS: age, security: 'psk' }))
  const { stations } = stationsIn(text)
  must(JSON.stringify(stations) === JSON.stringify(expected), 'other stations are read', () => ({
    text,
    stations,
    expected,
  }))
  connectedIn(text)
  signalIn(text)
}

/** avahi-browse prints names with avahi_escape_label(), and TXT strings likewise. */
const browse: Reader = input => {
  if (input.flag()) return void foundIn(input.text())
  const escaped = (text: string) =>
    [...Buffer.from(text)]
      .map(byte =>
        /[A-Za-z0-9_-]/.test(String.fromCharCode(byte))
          ? String.fromCharCode(byte)
          : byte === 0x2e || byte === 0x5c
            ? `\\${String.fromCharCode(byte)}`
            : `\\${String(byte).padStart(3, '0')}`,
      )
      .join('')
  const name = input.chunk().toString().toWellFormed()
  const value = input.chunk().toString().toWellFormed()
  const found = foundIn(
    `=;eth0;IPv4;${escaped(name)};_http._tcp;local;a.local;192.0.2.1;80;"k=${escaped(value)}" "j=1"`,
  )
  must(found?.name === name && found.txt.k === value && found.txt.j === '1', 'another service is read', () => ({
    name,
    value,
    found,
  }))
}

const announce: Reader = input => {
  const name = input.text()
  const [value, groups] = [input.text(), Array.from({ length: input.below(5) }, () => input.text())]
  const xml = serviceGroup({ name, services: [{ type: '_http._tcp', port: 80, txt: { v: value, groups } }] })
  must(!/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/.test(xml) && xml.isWellFormed(), 'it is not XML', () => xml)
  const texts = Array.from(xml.matchAll(/<(name|txt-record)>(.*?)<\/\1>/gs), ([, , text = '']) => text)
  for (const text of texts) must(!/[<>]|&(?!(lt|gt|amp);)/.test(text), 'a text is not escaped', () => xml)
  const plain = texts.map(text => text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'))
  must(
    Buffer.byteLength(plain[0] ?? '') <= 63 && plain.slice(1).every(text => Buffer.byteLength(text) <= 255),
    'a text is too long',
    () => xml,
  )
}

const bundleUrl: Reader = input => {
  const text = input.chunk().toString('utf8')
  if (whyNoBundleUrl(text) !== undefined) return
  const { protocol, username, password, hash } = new URL(text)
  must(
    /^https?:$/.test(protocol) && username === '' && password === '' && hash === '',
    'WHATWG reads another address',
    () => text,
  )
  const query = text.slice(text.indexOf('?') + 1)
  must(!text.includes('?') || query.length < 2 || !masked(text).includes(`?${query}`), 'its query is shown', () => text)
}

const certificate: Reader = input => {
  const names = Array.from({ length: input.below(5) }, () =>
    input.pick(['a.example', '192.0.2.1', '2001:db8::1', 'x'.repeat(63), 'lobby.local']),
  )
  const commonName = input.words(64)
  const from = (input.byte() * 256 + input.byte()) * 86_400_000
  const pem = selfSigned({
    key: privateKey,
    organization: 'receiverd',
    commonName,
    names,
    from,
    to: from + 86_400_000,
    serial: Buffer.concat([input.rest(), Buffer.alloc(15, 1)]).subarray(0, 15),
  })
  const read = new X509Certificate(pem)
  must(read.verify(read.publicKey), 'its signature is bad', () => pem)
  must(Date.parse(read.validFrom) === from, 'OpenSSL reads another date', () => ({ from, read: read.validFrom }))
  for (const name of names)
    must((isIP(name) ? read.checkIP(name) : read.checkHost(name)) !== undefined, 'OpenSSL reads other names', () => ({
      names,
      read: read.subjectAltName,
    }))
}

const edid: Reader = input => {
  const isWhole = input.flag()
  const bytes = Buffer.concat([Buffer.from('00ffffffffffff00', 'hex'), input.rest()])
  // With the checksums of its blocks.
  if (isWhole)
    for (let at = 0; at + 128 <= bytes.length; at += 128)
      bytes[at + 127] = 256 - (bytes.subarray(at, at + 127).reduce((sum, byte) => sum + byte, 0) % 256)
  const { monitor, timings } = readEdid(bytes)
  must(/^[ -~]*$/.test(monitor), 'the name is not printable', () => monitor)
  for (const timing of timings)
    must(/^[1-9]\d{2,3}x[1-9]\d{0,3}@[1-9]\d*$|^\d+x\d+@\d+$/.test(timing), 'no timing is like that', () => timing)
  must(new Set(timings).size === timings.length, 'a timing stands twice', () => timings)
}

const glob: Reader = input => {
  const pattern = input.chunk().toString().toWellFormed().slice(0, 24)
  const name = input.chunk().toString().toWellFormed().slice(0, 24)
  const matches = globMatches(pattern, name)
  // A regular expression takes exponential time for many of them.
  if (pattern.includes('[') || pattern.split('*').length > 4) return
  const escaped = pattern.replace(/\\([\s\S]?)|([*?])|([\s\S])/gu, (_, quoted, wild, plain) =>
    wild === '*' ? '[^]*' : wild === '?' ? '[^]' : (quoted ?? plain).replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'),
  )
  must(
    pattern.endsWith('\\') || matches === new RegExp(`^${escaped}$`, 'u').test(name),
    'a regular expression finds otherwise',
    () => ({ pattern, name, matches }),
  )
}

const address: Reader = input => {
  const text = input.chunk().toString()
  const other = input.chunk().toString()
  const cidr = parseCidr(text)
  const [host = '', prefix = ''] = text.split('/')
  const family = isIP(host)
  const isCidr =
    family !== 0 &&
    !host.includes('%') &&
    /^(0|[1-9]\d{0,2})$/.test(prefix) &&
    Number(prefix) <= (family === 4 ? 32 : 128) &&
    text === `${host}/${prefix}`
  must((cidr !== undefined) === isCidr, 'Node reads it otherwise', () => text)
  const address = parseAddress(other)
  if (!cidr || !address) return
  const list = new BlockList()
  list.addSubnet(host, Number(prefix), family === 4 ? 'ipv4' : 'ipv6')
  // Node finds IPv4-mapped addresses in networks of IPv4, which for us are addresses of IPv6.
  if (isIP(other) === family)
    must(isWithin(cidr, address) === list.check(other, family === 4 ? 'ipv4' : 'ipv6'), 'Node finds otherwise', () => ({
      text,
      other,
    }))
  reachable([text, other])
}

const versions: Reader = input => {
  const [one, other, third] = [input.chunk(), input.chunk(), input.chunk()].map(text => text.toString('latin1')) as [
    string,
    string,
    string,
  ]
  const order = (a: string, b: string) => Math.sign(compareVersions(a, b) ?? Number.NaN)
  const facts = () => ({ one, other, third })
  must(Number.isNaN(order(one, one)) || order(one, one) === 0, 'a version differs from itself', facts)
  must(
    Number.isNaN(order(one, other)) || order(one, other) + order(other, one) === 0,
    'the order depends on who asks',
    facts,
  )
  if (order(one, other) >= 0 && order(other, third) >= 0) must(order(one, third) >= 0, 'the order is none', facts)
}

const nearest: Reader = input => {
  const word = input.words(24)
  const candidates = ['hostname', 'deviceName', 'groups', 'timezone', 'locale', 'ntp', 'network', 'wifi', 'display']
  const limit = Math.min(2, Math.floor(word.length / 3))
  const found = closest(word, candidates)
  const near = candidates.filter(candidate => distance(word, candidate) <= limit)
  must(found === undefined ? near.length === 0 : near.includes(found), 'another word is the closest', () => ({
    word,
    found,
    near,
  }))
}

/** Optimal string alignment: edits, of which a swap is one. */
function distance(one: string, other: string): number {
  const rows: number[][] = [Array.from({ length: other.length + 1 }, (_, at) => at)]
  for (let i = 1; i <= one.length; i++) {
    const row = [i]
    for (let j = 1; j <= other.length; j++) {
      const cost = one[i - 1] === other[j - 1] ? 0 : 1
      const options = [(rows[i - 1]?.[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (rows[i - 1]?.[j - 1] ?? 0) + cost]
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1])
        options.push((rows[i - 2]?.[j - 2] ?? 0) + 1)
      row.push(Math.min(...options))
    }
    rows.push(row)
  }
  return rows.at(-1)?.at(-1) ?? 0
}

const rauc: Reader = input => {
  const text = input.chunk().toString()
  for (const read of [slotsIn, bundleIn, textIn, propertyIn, percentIn])
    try {
      read(text)
    } catch (error) {
      if (!(error instanceof HalError)) throw error
    }
  refusalIn(text)
}

const sound: Reader = input => {
  const text = input.text()
  const control = playbackControl(text)
  must(control === undefined || (control.volume >= 0 && control.volume <= 100), 'no volume is like that', () => ({
    text,
    control,
  }))
  cardNumbers(text)
}

const locales: Reader = input => {
  const bytes = input.rest()
  for (const name of archivedLocales(bytes) ?? []) must(name.length <= 64, 'no locale has such a name', () => name)
}

const json: Reader = input => {
  const bytes = input.rest()
  let value: ReturnType<typeof parseJson>
  try {
    value = parseJson(bytes)
  } catch (error) {
    if (error instanceof SyntaxError) return
    throw error
  }
  const plain = JSON.stringify(JSON.parse(bytes.toString()))
  must(JSON.stringify(value) === plain, 'JSON.parse reads another value', () => bytes.toString())
  const line = toJsonLine(value)
  must(
    JSON.stringify(JSON.parse(line)) === plain && !/[\n\r\u0085\u2028\u2029]/.test(line),
    'it is not one line of the same value',
    () => line,
  )
  try {
    must(
      toCanonicalJson(parseJson(Buffer.from(toCanonicalJson(value)))) === toCanonicalJson(value),
      'it is not canonical',
      () => line,
    )
  } catch (error) {
    // Infinity, and unpaired surrogates.
    if (!(error instanceof TypeError)) throw error
  }
}

const receiverTxt: Reader = input => {
  const text = input.text()
  const { lines, mistakes } = parseReceiverTxt(text)
  // The mistakes' own example may be a value.
  const told = mistakes.map(mistake => mistake.replace('hostname=lobby', ''))
  for (const { value } of Object.values(lines))
    must(
      !told.some(mistake => value.length > 12 && mistake.includes(value)),
      'a value is repeated in a mistake',
      () => ({ text, mistakes }),
    )
  const commented = commentedOut(text)
  const after = parseReceiverTxt(commented)
  must(Object.keys(after.lines).length === 0 && after.mistakes.length === 0, 'something is still set', () => ({
    text,
    commented,
  }))
  for (const name of ['api-key', 'wifi-password'] as const) {
    const secret = lines[name]?.value ?? ''
    // The name of a setting may end like a value.
    const values = commented.replace(/^[^=\n]*=/gm, '')
    const elsewhere = text.split('\n').filter((_, at) => at + 1 !== lines[name]?.number)
    must(
      secret.length < 6 || elsewhere.some(line => line.includes(secret)) || !values.includes(secret),
      'a secret is left',
      () => ({ text, commented }),
    )
  }
}

const READERS: readonly Reader[] = [
  printf,
  stations,
  browse,
  announce,
  bundleUrl,
  certificate,
  edid,
  glob,
  address,
  versions,
  nearest,
  rauc,
  sound,
  locales,
  json,
  receiverTxt,
]
const at = (reader: Reader) => String.fromCharCode(READERS.indexOf(reader))

export const readers: Target = {
  name: 'readers',
  maxLength: 1_024,
  executions: 1_200,
  seeds: [
    `${at(printf)}a"\\\x1b\n\x80é`,
    `${at(stations)}\0\x02Home\xff\x30\x01Caf\xc3\xa9\xff\x20\x02`,
    `${at(stations)}\x01id=1\nlevel=-40\nage=3\nflags=[WPA2-PSK+SAE-CCMP][ESS]\nssid=a\\x41\n====\nid=2\nlevel=-50\nflags=[ESS]\nssid=b\n####\n`,
    `${at(browse)}\0Lobby 1.2\xffa b\xff`,
    `${at(browse)}\x01=;eth0;IPv4;a\\065;_http._tcp;local;a.local;192.0.2.1;80;"a=1" "b"`,
    `${at(announce)}Lobby <&>\xffv\xff\x02a\xffb\xff`,
    `${at(bundleUrl)}https://u.example/a.raucb?sig=1`,
    `${at(certificate)}\x03\0\x01\x02Lobby\xff\x4e\x20abc`,
    `${at(edid)}\x01${'\x04\x72\x01\x02'.repeat(62)}`,
    `${at(glob)}e*p?\\*\xffenp0*`,
    `${at(glob)}[!a-z]*\xff9`,
    `${at(address)}192.0.2.0/24\xff192.0.2.9`,
    `${at(address)}2001:db8::/32\xff2001:db8:1::1`,
    `${at(versions)}1.2.3-rc.1+b\xff1.2\xff1.2.3-rc.2`,
    `${at(nearest)}hostnmae`,
    `${at(rauc)}{"type":"a(sa{sv})","data":[[["rootfs.0",{"bootname":{"type":"s","data":"A"},"status":{"type":"s","data":"ok"}}]]]}`,
    `${at(sound)}Simple mixer control 'Master',0\n  Capabilities: pvolume pswitch\n  Front Left: Playback 24 [77%] [-11.25dB] [on]\n`,
    `${at(locales)}\x09\x01\x02\xde${'\0'.repeat(80)}`,
    `${at(json)}{"a":[1,"\\u2028",{"b":null}]}`,
    `${at(receiverTxt)}\xef\xbb\xbfhostname=lobby\r\nAPI_KEY = "a-key-that-is-long"\r\n# c\r\nwifi-password=secret word\r\n`,
  ].map(seed => Buffer.from(seed, 'latin1')),
  words: [
    '\n',
    '\r\n',
    ' ',
    '"',
    "'",
    '\\',
    '=',
    ';',
    ',',
    ':',
    '/',
    '.',
    '*',
    '?',
    '[',
    ']',
    '[!',
    '-',
    '%',
    '#',
    '{',
    '}',
    '\xff',
    '\\x',
    '\\065',
    'http://',
    'https://',
    '@',
    '::',
    '::ffff:',
    '0.0.0.0',
    '/24',
    '1.2.3',
    '-rc.1',
    '+',
    'ssid=',
    'level=',
    'flags=',
    'id=',
    '====',
    '####',
    'Capabilities:',
    'pvolume',
    'volume',
    'pswitch',
    '[50%]',
    '[off]',
    '"data":',
    '"type":"s"',
    'api-key=',
    'wifi-password=',
    'API_KEY=',
    'hostname=',
    '\ufeff',
    '\u2028',
    '\x85',
    '1e999',
    '-0',
    '\\ud800',
    '__proto__',
  ].map(word => word),
  run(input) {
    input.pick(READERS)(input)
  },
}
