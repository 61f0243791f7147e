/** Editors of configuration files: a value is read back as set, nothing else changes, and setting it again changes nothing. */
import { HalError } from '../../../hal/errors.ts'
import { renameLocalHost } from '../../../hal/format/hosts.ts'
import { getValues, parseIni, setValues, splitSections } from '../../../hal/format/ini.ts'
import { getValue, setValue } from '../../../hal/format/key-value.ts'
import { decodeLossless, encodeLossless } from '../../../hal/format/lossless.ts'
import { type Configuration, configurationOf, editNetworkFile } from '../../../hal/format/network-file.ts'
import {
  readStartup,
  type Startup,
  setGuarded,
  setName,
  setResolution,
  setRestricted,
  whyNotName,
} from '../../../hal/format/uxplayrc.ts'
import { getOutput, setOutput } from '../../../hal/format/weston-ini.ts'
import {
  controlFolder,
  editWpa,
  MAX_NETWORKS,
  readWpa,
  type WifiNetwork,
  whyNoNetwork,
} from '../../../hal/format/wpa-supplicant.ts'
import { KEPT } from '../../../hal/secret.ts'
import type { Input } from '../input.ts'
import { must, type Target } from '../target.ts'

/** As much as a file may hold. */
const LARGEST = 64 * 1024

/** One edit: the text before it, and the same edit for any text. */
interface Edit {
  readonly text: string
  readonly apply: (text: string) => string
  /** @throws {Finding} unless `after` is `before` with the edit. */
  readonly judge: (before: string, after: string) => void
}

type Editor = (input: Input) => Edit | undefined

const linesOf = (text: string) => text.replace(/\n$/, '').split('\n')

/** Whether `lines` are all in `others`, in the same order. */
function isWithin(lines: readonly string[], others: readonly string[]): boolean {
  let at = 0
  for (const other of others) if (other === lines[at]) at++
  return at === lines.length
}

function keyValue(input: Input): Edit {
  const name = input.pick(['LANG', 'PRETTY_HOSTNAME', 'GROUPS', 'A'])
  const value = input.words(64)
  const text = input.text()
  return {
    text,
    apply: text => setValue(text, name, value),
    judge(before, after) {
      must(getValue(after, name) === value, 'the value is not read back', () => ({ before, after, name, value }))
      const others = new Set(before.match(/[A-Za-z_]\w*/g)?.slice(0, 32))
      others.delete(name)
      for (const other of others)
        must(getValue(after, other) === getValue(before, other), 'another value is changed', () => ({
          before,
          after,
          other,
        }))
      const had = getValue(before, name) !== undefined
      must(had || after.endsWith(before) || after.startsWith(before), 'a new line replaces others', () => ({
        before,
        after,
      }))
    },
  }
}

/** Values that callers write: words without white space, backslashes and quotes at their ends. */
const word = (input: Input) => input.words(32).replace(/[\s\\;#"']/g, '') || '1'

function ini(input: Input): Edit {
  const section = input.pick(['Network', 'Match', 'Time'])
  const key = input.pick(['DNS', 'Address', 'NTP', 'Name'])
  const values = Array.from({ length: input.below(4) }, () => word(input))
  const text = input.text()
  return {
    text,
    apply: text => setValues(text, section, key, values),
    judge(before, after) {
      must(isSame(getValues(after, section, key), values), 'the values are not read back', () => ({
        before,
        after,
        values,
      }))
      const isOther = (one: { section: string; key: string }) =>
        one.key !== '' && (one.section !== section || one.key !== key)
      const others = (text: string) =>
        parseIni(text)
          .filter(isOther)
          .map(({ section, key, value }) => [section, key, value])
      must(isSame(others(after), others(before)), 'another value is changed', () => ({
        before,
        after,
        section,
        key,
        values,
      }))
      const kept = linesOf(before).filter(line => /^\s*[#;]/.test(line))
      must(isWithin(kept, linesOf(after)), 'a comment is lost', () => ({ before, after }))
      const joined = splitSections(before)
        .map(({ text }) => text)
        .join('')
      must(joined === before, 'sections are not the text', () => ({ before, joined }))
    },
  }
}

function hosts(input: Input): Edit | undefined {
  const name = (of: Input) =>
    of
      .words(64)
      .toLowerCase()
      .replace(/[^a-z0-9.-]/g, '')
  const previous = input.flag() ? name(input) : undefined
  const next = name(input)
  if (!/^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/.test(next)) return undefined
  const text = input.text()
  const isLocal = (line: string) => /^\s*127\.0\.1\.1(\s|$)/.test(line)
  const namesOf = (line: string) => line.replace(/#.*/s, '').trim().toLowerCase().split(/\s+/).slice(1)
  // A second time, its name is the new one. Of several lines, any that had it before is renamed only then.
  const isRepeatable = text.split('\n').filter(isLocal).length < 2
  let isAgain = false
  return {
    text,
    apply(text) {
      if (isAgain && !isRepeatable) return text
      const renamed = renameLocalHost(text, isAgain ? next : previous, next)
      isAgain = true
      return renamed
    },
    judge(before, after) {
      const [old, fresh] = [before.split('\n'), after.split('\n')]
      must(old.length === fresh.length, 'lines were added or lost', () => ({ before, after }))
      for (const [at, line] of old.entries()) {
        const renamed = fresh[at] ?? ''
        must(isLocal(line) || renamed === line, 'another line is changed', () => ({ line, renamed }))
        const comment = line.indexOf('#')
        must(comment < 0 || renamed.endsWith(line.slice(comment)), 'a comment is lost', () => ({ line, renamed }))
      }
      if (!old.some(isLocal)) return
      const names = fresh.filter(isLocal).flatMap(namesOf)
      const isNamed = names.some(name => name === next || (!next.includes('.') && name.startsWith(`${next}.`)))
      must(isNamed || names.includes(next.split('.', 1)[0] ?? ''), 'the new name is not there', () => ({
        before,
        after,
        previous,
        next,
      }))
    },
  }
}

const CONNECTORS = ['HDMI-A-1', 'HDMI-A-2', 'DSI-1']
const WESTON_KEYS = ['mode', 'transform', 'same-as', 'name', 'scale']

function weston(input: Input): Edit {
  const name = input.pick(CONNECTORS)
  const key = input.pick(['mode', 'transform'])
  const value = word(input)
  const text = input.text()
  return {
    text,
    apply: text => setOutput(text, name, key, value),
    judge(before, after) {
      must(getOutput(after, name, key) === value, 'the value is not read back', () => ({
        before,
        after,
        name,
        key,
        value,
      }))
      for (const other of CONNECTORS)
        for (const otherKey of WESTON_KEYS) {
          if (other === name && (otherKey === key || otherKey === 'name')) continue
          const [was, is] = [getOutput(before, other, otherKey), getOutput(after, other, otherKey)]
          must(was === is, 'another value is changed', () => ({ before, after, other, otherKey }))
        }
      const changed = linesOf(before).filter(
        (line, at, all) => !isWithin(all.slice(0, at + 1), linesOf(after)) && line !== '',
      )
      const [old, fresh] = [before.split('\n'), after.split('\n')]
      const lost =
        old.length - old.filter((line, at) => fresh.slice(at, at + 8).some(other => other.startsWith(line))).length
      must(lost <= 1, 'more than a line is changed', () => ({ before, after, changed }))
    },
  }
}

const STARTUP_EDITS: readonly ((input: Input) => [keyof Startup, unknown, (text: string) => string] | undefined)[] = [
  input => {
    const isDeviceName = input.flag()
    const name = input.words(64)
    if (name === '' || whyNotName(name) !== undefined) return undefined
    return ['name', name, text => setName(text, name, isDeviceName)]
  },
  input => {
    const isGuarded = input.flag()
    return ['isGuarded', isGuarded, text => setGuarded(text, isGuarded)]
  },
  input => {
    const isRestricted = input.flag()
    return ['isRestricted', isRestricted, text => setRestricted(text, isRestricted)]
  },
  input => {
    const resolution = input.pick(['', '1280x720', '1920x1080', '3840x2160'])
    return ['resolution', resolution || undefined, text => setResolution(text, resolution)]
  },
]
/** Properties that setting another may change. */
const ALONG: Partial<Record<keyof Startup, readonly (keyof Startup)[]>> = { name: ['isDeviceName', 'appendsHostName'] }

function uxplayrc(input: Input): Edit | undefined {
  const [property, value, apply] = input.pick(STARTUP_EDITS)(input) ?? []
  const text = input.text()
  if (!property || !apply) return undefined
  return {
    text,
    apply,
    judge(before, after) {
      const [old, fresh] = [readStartup(before), readStartup(after)]
      must(fresh[property] === value, 'the value is not read back', () => ({ before, after, property, value }))
      for (const other of Object.keys(old) as (keyof Startup)[])
        if (
          other !== property &&
          !ALONG[property]?.includes(other) &&
          !(property !== 'name' && other === 'isDeviceName')
        )
          must(isSame(fresh[other], old[other]), 'another option is changed', () => ({ before, after, other }))
      const comments = linesOf(before).filter(line => line.startsWith('#') && !line.startsWith("# The device's name: "))
      must(isWithin(comments, linesOf(after)), 'a comment is lost', () => ({ before, after }))
    },
  }
}

function wifi(input: Input): Edit | undefined {
  const country = input.pick(['', 'DE', 'DK'])
  const networks = new Map<string, WifiNetwork>()
  for (let left = input.below(4); left > 0; left--) {
    const ssid = input.chunk().toString('utf8').toWellFormed().slice(0, 32)
    const password = input.pick(['', 'ours', KEPT, 'key']) as string
    const own =
      password === 'ours'
        ? input
            .chunk()
            .toString('latin1')
            .replace(/[^ -~]/g, '')
            .padEnd(8, '#')
            .slice(0, 63)
        : password
    const network = { ssid, password: own === 'key' ? 'ab'.repeat(32) : own, hidden: input.flag() }
    const faults = whyNoNetwork({ ssid, password: network.password === KEPT ? '' : network.password })
    if (faults.ssid === undefined && faults.password === undefined) networks.set(ssid, network)
  }
  const text = input.text()
  const next = { country, networks: [...networks.values()] }
  return {
    text,
    apply(text) {
      try {
        return editWpa(text, next)
      } catch (error) {
        // The only refusal: there is no password to keep.
        const known = new Map(readWpa(text).networks.map(({ ssid, password }) => [ssid, password]))
        const isUnkept = next.networks.some(({ ssid, password }) => password === KEPT && known.get(ssid) !== KEPT)
        if (error instanceof HalError && isUnkept) return text
        throw error
      }
    },
    judge(before, after) {
      if (after === before) return
      const expected = next.networks
        .slice(0, MAX_NETWORKS)
        .map(({ ssid, password, hidden }) => ({ ssid, password: password && KEPT, hidden }))
      const read = readWpa(after)
      must(isSame(read.networks.slice(0, expected.length), expected), 'the networks are not read back', () => ({
        before,
        after,
        expected,
        read,
      }))
      // Networks beyond the list's limit move into it.
      must(
        read.networks.length === expected.length || readWpa(before).networks.length === MAX_NETWORKS,
        'others are left',
        () => ({ before, after, expected, read }),
      )
      must(read.country === country, 'the country is not read back', () => ({ before, after }))
      const isOurs = (line: string) => /^\s*(ctrl_interface|country)\s*=/.test(line)
      const foreign = globalLines(before).filter(line => !isOurs(line) && line.trim() !== '')
      must(isWithin(foreign, linesOf(after)), 'a line of others is lost', () => ({ before, after, foreign }))
      must(before.includes('ctrl_interface') || controlFolder(after) !== undefined, 'nothing can be asked', () => ({
        after,
      }))
    },
  }
}

/** Lines outside of blocks, up to a block that does not end. Lines with comments or quotes are left out: they are judged by what is read. */
function globalLines(text: string): readonly string[] {
  const lines = linesOf(text)
  const found: string[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? ''
    if (/^\s*[\w-]+=\{\s*(#.*)?$/s.test(line))
      while (at < lines.length && !/^\s*\}\s*(#.*)?$/s.test(lines[at] ?? '')) at++
    else if (!/[{}"#]/.test(line)) found.push(line)
  }
  return found
}

const ADDRESSES = ['192.0.2.10/24', '198.51.100.7/8', '2001:db8::5/64']

function network(input: Input): Edit {
  const dns = [
    ...new Set(Array.from({ length: input.below(4) }, () => input.pick(['192.0.2.1', '192.0.2.2', '2001:db8::1']))),
  ]
  const isStatic = input.flag()
  const address = input.pick(ADDRESSES)
  const gateway = input.pick(['', address.includes(':') ? 'fe80::1' : '192.0.2.1'])
  const next: Configuration = isStatic
    ? { method: 'static', address, gateway, dns }
    : { method: 'dhcp', address: '', gateway: '', dns }
  const template = input.flag() ? input.text() : undefined
  const text = input.text()
  return {
    text,
    apply: text => editNetworkFile(text, 'eth0', next, template),
    judge(before, after) {
      must(isSame(configurationOf(after), next), 'the configuration is not read back', () => ({
        before,
        after,
        next,
        template,
      }))
      const isOurs = ({ section, key }: { section: string; key: string }) =>
        key === '' ||
        ['Address', 'Route', 'Match'].includes(section) ||
        (section === 'Network' && /^(DNS|Gateway|Address|DHCP)$/.test(key))
      const others = (text: string) =>
        parseIni(text)
          .filter(one => !isOurs(one))
          .map(({ section, key, value }) => [section, key, value])
      must(before === '' || isSame(others(after), others(before)), 'another value is changed', () => ({
        before,
        after,
        next,
      }))
    },
  }
}

function lossless(input: Input): undefined {
  const bytes = input.rest()
  const text = decodeLossless(bytes)
  must(encodeLossless(text).equals(bytes), 'bytes are lost', () => bytes.toString('latin1'))
  let strict: string | undefined
  try {
    strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {}
  must(text.isWellFormed() === (strict !== undefined), 'WHATWG decodes it otherwise', () => bytes.toString('latin1'))
  must(strict === undefined || strict === text, 'WHATWG decodes it otherwise', () => bytes.toString('latin1'))
}

const EDITORS: readonly Editor[] = [keyValue, ini, hosts, weston, uxplayrc, wifi, network, lossless]

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other)

function at(editor: Editor): string {
  return String.fromCharCode(EDITORS.indexOf(editor))
}

export const editors: Target = {
  name: 'editors',
  maxLength: 2_048,
  executions: 800,
  seeds: [
    `${at(keyValue)}\x01Meeting room\xffPRETTY_HOSTNAME="a b" # c\nLANG='x'\nA=b\\\nc\n`,
    `${at(ini)}\x00\x00\x02192.0.2.1\xff192.0.2.2\xff# c\n[Match]\nName=eth0\n[Network]\nDNS=1.1.1.1 \\\n# in it\n  2.2.2.2\nDHCP=yes\n`,
    `${at(hosts)}\x01old\xffnew.example.org\xff127.0.0.1 localhost\n127.0.1.1\told.example.org old # me\n`,
    `${at(weston)}\x00\x001920x1080\xff[core]\nidle-time=0\n[output]\nname=HDMI-A-1\nmode=off\n\n[output]\nname=HDMI-A-2\nsame-as=HDMI-A-1\n`,
    `${at(uxplayrc)}\x00\x01Lobby "7"\xff# c\nn "A b" -nh\npin\ns 1920x1080@60\nrestrict\nallow AA:BB:CC:00:00:01\n`,
    `${at(uxplayrc)}\x01\x01nh -pw secret -s 1x1\n`,
    `${at(uxplayrc)}\x02\x01restrict no\n`,
    `${at(uxplayrc)}\x03\x01s 800x600@30\n`,
    `${at(wifi)}\x01\x02Home\xff\x00\x01Work\xff\x01pass#word"1\xff\x00ctrl_interface=DIR=/run/wpa_supplicant\ncountry=US\nnetwork={\n\tssid="Home"\n\tkey_mgmt=NONE\n}\nnetwork={\n\tssid=576f726b\n\tpsk="12345678"\n\tpriority=3\n}\nnetwork={\n\tssid="eduroam"\n\tkey_mgmt=WPA-EAP\n\teap=PEAP\n}\n`,
    `${at(network)}\x01\x00\x01\x01\x00\x00[Match]\nName=eth*\n\n[Network]\nDHCP=yes\nDNS=9.9.9.9\n\n[Address]\nAddress=10.0.0.2/8\n\n[Route]\nGateway=10.0.0.1\n`,
    `${at(network)}\x01\x00\x01\x01\x01\x00\x00[Match]\nName=wlan0\n\n[Network]\nDHCP=yes\n\n[DHCPv4]\nRouteMetric=2048\n\n# c\n[Address]\nAddress=10.0.0.2/8\n`,
    `${at(lossless)}a\xc3\xa9\xed\xa0\x80\xf0\x9f\x8e\xac\xff\xfe`,
  ].map(seed => Buffer.from(seed, 'latin1')),
  words: [
    ...[
      '\n',
      '\r\n',
      '\\\n',
      ' ',
      '\t',
      '=',
      '"',
      "'",
      '#',
      ';',
      '\\',
      '[',
      ']',
      '{',
      '}',
      ',',
      '$',
      '`',
      '\ufeff',
      'é',
      '\u2028',
      '\0',
    ],
    ...[
      '[Network]\n',
      '[Match]\n',
      '[Time]\n',
      '[Address]\n',
      '[Route]\n',
      '[output]\n',
      'Name=',
      'DNS=',
      'Address=',
      'Gateway=',
      'DHCP=yes\n',
      'NTP=',
      'Destination=0.0.0.0/0\n',
      '_dhcp4',
    ],
    ...['127.0.1.1', 'localhost', 'name=HDMI-A-1\n', 'name=HDMI-A-2\n', 'mode=', 'same-as=', 'transform='],
    ...['LANG=', 'PRETTY_HOSTNAME=', 'GROUPS=', 'A='],
    ...[
      'n ',
      'nh\n',
      'pin\n',
      'pw ',
      's ',
      '-',
      'restrict',
      'restrict no',
      'allow ',
      '1920x1080@60',
      "# The device's name: ",
    ],
    ...[
      'network={\n',
      '}\n',
      'ssid=',
      'ssid="',
      'psk="',
      'psk=',
      'key_mgmt=',
      'WPA-PSK',
      'SAE',
      'NONE',
      'WPA-EAP',
      'eap=',
      'priority=',
      'scan_ssid=1\n',
      'country=',
      'ctrl_interface=',
      'P"',
      '\\x41',
      'disabled=1\n',
      'mode=2\n',
      'sae_password=',
      'blob-base64-x={\n',
    ],
  ],
  run(input) {
    const edit = input.pick(EDITORS)(input)
    if (!edit) return
    const after = edit.apply(edit.text)
    edit.judge(edit.text, after)
    const again = edit.apply(after)
    must(again === after, 'it changes again when it is set again', () => ({ before: edit.text, after, again }))
  },
  stretch(input) {
    const edit = input.pick(EDITORS)(input)
    if (edit && edit.text !== '') edit.apply(edit.text.repeat(Math.ceil(LARGEST / edit.text.length)).slice(0, LARGEST))
  },
}
