import { isIPv6 } from 'node:net'
import { dirname, resolve } from 'node:path'
import { isAlias, isMap, isScalar, LineCounter, parseDocument, visit } from 'yaml'
import { closest } from '../../hal/format/closest.ts'
import { GROUP } from '../../hal/settings/groups.ts'
import { ISSUER_NAME } from '../auth/issuer.ts'
import { isObject, type JsonObject, type JsonValue } from '../json.ts'
import { printable } from '../log.ts'
import { mergePatch } from '../system/merge-patch.ts'
import { UsageError } from '../usage-error.ts'
import { type BridgeSettings, COMMANDS, isCommandName, MAX_TOPIC, TOPIC } from './bridge/settings.ts'

/** Where a secret is. */
export type Secret =
  /** In the fleet file itself. */
  | { readonly kind: 'text'; readonly text: string }
  /** On the only line of a file. The path is absolute. */
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'env'; readonly name: string }

/** How a device proves its identity before it gets a credential. */
export type Proof =
  | { readonly kind: 'none' }
  /** Base64 of the SHA-256 of its public key (SPKI). */
  | { readonly kind: 'pin'; readonly pin: string }
  /** Hexadecimal digits of the SHA-256 of its certificate, in capitals, with colons. */
  | { readonly kind: 'fingerprint'; readonly fingerprint: string }
  /** A certificate of this authority, for the name or address in the fleet file. The path is absolute. */
  | { readonly kind: 'ca'; readonly path: string }

export interface Endpoint {
  readonly host: string
  readonly port: number
}

export interface FleetDevice {
  readonly name: string
  readonly groups: readonly string[]
  /** Undefined for a device that is found on the network by its serial number. */
  readonly endpoint: Endpoint | undefined
  readonly serial: string
  readonly proof: Proof
  /** Undefined if it is in the key file. */
  readonly key: Secret | undefined
  /** The settings that it should have: those of the fleet, of its groups in their order, and its own, merged (RFC 7396). */
  readonly settings: JsonObject
}

export interface Fleet {
  readonly devices: readonly FleetDevice[]
  readonly groups: readonly string[]
  /** The absolute path of the file with the API keys. */
  readonly keys: string | undefined
  /** The token for devices without a key of their own. */
  readonly token: Secret | undefined
  /** How the devices are shown on an MQTT broker. */
  readonly bridge: BridgeSettings | undefined
  /** Whether the file itself contains a secret, so that nobody but its owner may read it. */
  readonly hasSecrets: boolean
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
const NAME_WORDS = '1 to 64 letters, digits, dots, hyphens and underscores'
const PIN = /^(?:sha256\/\/)?([A-Za-z0-9+/]{43}=)$/
const FINGERPRINT = /^[0-9A-F]{2}(:[0-9A-F]{2}){31}$/i
const HOST = /^[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$/
const PORTS = { 'https:': 443, 'http:': 80 } as const
const BROKER_PORTS = { 'mqtts:': 8883, 'mqtt:': 1883 } as const
const FLEET_KEYS = ['keys', 'token', 'ca', 'settings', 'groups', 'devices', 'bridge']
const BRIDGE_KEYS = ['broker', 'ca', 'user', 'password', 'prefix', 'discovery', 'allow', 'issuer']
const GROUP_KEYS = ['settings']
const DEVICE_KEYS = ['address', 'serial', 'pin', 'ca', 'key', 'groups', 'settings']
/** Members of settings that are secrets. */
const SECRET_MEMBER = 'password'
/** The query of an address may be a secret. `?…` stands for the one that the device has. */
const SECRET_QUERY = /^https?:\/\/[^?]*\?(?!…$)./i

/**
 * Reads a fleet file.
 * @param path Its absolute path: other paths in it are relative to its folder.
 * @throws {UsageError} with the line and the place of the mistake.
 */
export function parseFleet(text: string, path: string): Fleet {
  return new Reader(text, path).fleet()
}

class Reader {
  readonly #path: string
  readonly #lines = new LineCounter()
  readonly #document: ReturnType<typeof parseDocument>
  #hasSecrets = false

  constructor(text: string, path: string) {
    this.#path = path
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false, stringKeys: true })
    // Among the warnings are tags of other programs, such as !vault and !secret, whose text is no value but stands for one.
    const [error] = [...this.#document.errors, ...this.#document.warnings]
    // Its message may quote the line, which may hold a key.
    if (error)
      throw new UsageError(`${path}:${this.#lines.linePos(error.pos[0]).line}: not YAML: ${describeCode(error.code)}`)
    visit(this.#document, {
      // JSON has none, and would make it null, which removes the value of a wider layer.
      Scalar: (_, { value, range }) => {
        if (typeof value === 'number' && !Number.isFinite(value))
          throw new UsageError(`${path}:${this.#lines.linePos(range?.[0] ?? 0).line}: infinite, or not a number`)
      },
    })
  }

  fleet(): Fleet {
    if (!isMap(this.#document.contents))
      throw new UsageError(`${this.#path}: has no devices; give a map with "devices"`)
    const whole = this.#object([], this.#value(), FLEET_KEYS)
    const groups = this.#members(['groups'], whole.groups).map(([name, value]) => {
      const at = ['groups', name]
      if (!GROUP.test(name)) this.#fail(at, 'a group is named by 1 to 32 lower-case letters, digits and hyphens')
      const { settings } = this.#object(at, value ?? {}, GROUP_KEYS)
      return [name, this.#settings([...at, 'settings'], settings)] as const
    })
    const common = this.#settings(['settings'], whole.settings)
    const ca = this.#path_(['ca'], whole.ca)
    const devices = this.#members(['devices'], whole.devices).map(([name, value]) =>
      this.#device(name, value, { common, groups: new Map(groups), ca }),
    )
    if (devices.length === 0) this.#fail(['devices'], 'there is none; give each a name and an address')
    this.#refuseTwins(devices)
    const token = whole.token === undefined ? undefined : this.#secret(['token'], whole.token)
    return {
      devices,
      groups: groups.map(([name]) => name),
      keys: this.#path_(['keys'], whole.keys),
      token,
      bridge: whole.bridge === undefined ? undefined : this.#bridge(['bridge'], whole.bridge),
      hasSecrets: this.#hasSecrets,
    }
  }

  #device(
    name: string,
    value: JsonValue,
    { common, groups, ca }: { common: JsonObject; groups: ReadonlyMap<string, JsonObject>; ca: string | undefined },
  ): FleetDevice {
    const at = ['devices', name]
    if (!NAME.test(name)) this.#fail(at, `a device is named by ${NAME_WORDS}`)
    const given = this.#object(at, value, DEVICE_KEYS)
    const own = this.#settings([...at, 'settings'], given.settings)
    const memberships = this.#names([...at, 'groups'], given.groups, [...groups.keys()])
    const layers = [common, ...memberships.map(group => groups.get(group) ?? {}), own]
    const serial = this.#text([...at, 'serial'], given.serial)
    const { endpoint, isTls } = this.#endpoint([...at, 'address'], given.address)
    if (!endpoint && serial === '') this.#fail(at, 'give it an address, or the serial number by which it is found')
    return {
      name,
      groups: memberships,
      endpoint,
      serial,
      proof: this.#proof(at, given, isTls, endpoint === undefined, ca),
      key: given.key === undefined ? undefined : this.#secret([...at, 'key'], given.key),
      // A null removes a value that a wider layer sets.
      settings: layers.reduce<JsonValue>((all, layer) => mergePatch(all, layer), {}) as JsonObject,
    }
  }

  #bridge(at: readonly string[], value: JsonValue): BridgeSettings {
    const given = this.#object(at, value, BRIDGE_KEYS)
    const { user, discovery, issuer } = given
    const place = this.#place([...at, 'broker'], given.broker ?? '', BROKER_PORTS, 'mqtts:')
    if (!place) this.#fail([...at, 'broker'], 'give mqtts://HOST, or mqtt://HOST without TLS, each also with :PORT')
    const isTls = place.scheme === 'mqtts:'
    if (!isTls && given.ca !== undefined) this.#fail([...at, 'ca'], 'there is no TLS at an mqtt: address')
    const prefix = this.#topic([...at, 'prefix'], given.prefix ?? 'receiverd')
    const looked = discovery === false ? '' : this.#topic([...at, 'discovery'], discovery ?? 'homeassistant')
    if (`${prefix}/`.startsWith(`${looked}/`) || `${looked}/`.startsWith(`${prefix}/`))
      this.#fail([...at, 'prefix'], `Home Assistant looks for devices below ${looked}/; give another one`)
    if (user === undefined && given.password !== undefined) this.#fail([...at, 'password'], 'needs a user')
    return {
      ...place.endpoint,
      isTls,
      ca: this.#path_([...at, 'ca'], given.ca),
      user: user === undefined ? undefined : this.#text([...at, 'user'], user),
      password: given.password === undefined ? undefined : this.#secret([...at, 'password'], given.password),
      prefix,
      discovery: looked,
      allow: this.#names([...at, 'allow'], given.allow, Object.keys(COMMANDS), 'command').filter(isCommandName),
      issuer: issuer === undefined ? undefined : this.#issuer([...at, 'issuer'], issuer),
    }
  }

  #issuer(at: readonly string[], value: JsonValue): { readonly name: string; readonly key: string } {
    const given = this.#object(at, value, ['name', 'key'])
    const name = this.#text([...at, 'name'], given.name)
    if (!ISSUER_NAME.test(name)) this.#fail([...at, 'name'], 'give the name under which the devices know it')
    return { name, key: this.#path_([...at, 'key'], given.key) ?? this.#fail(at, 'give the file of its private key') }
  }

  #topic(at: readonly string[], value: JsonValue): string {
    const text = this.#text(at, value)
    if (text.length <= MAX_TOPIC && TOPIC.test(text)) return text
    return this.#fail(
      at,
      `give 1 to 4 levels of letters, digits, hyphens and underscores, ${MAX_TOPIC} characters at most`,
    )
  }

  #endpoint(at: readonly string[], value: JsonValue | undefined): { endpoint: Endpoint | undefined; isTls: boolean } {
    if (value === undefined) return { endpoint: undefined, isTls: true }
    const place = this.#place(at, value, PORTS, 'https:')
    if (place) return { endpoint: place.endpoint, isTls: place.scheme === 'https:' }
    const accepted = 'give HOST, HOST:PORT, https://HOST:PORT or http://HOST:PORT'
    const text = this.#text(at, value)
    // The link with which the page signs in has the key after the #, and other URLs have passwords.
    return this.#fail(at, `${/[#?@]/.test(text) ? 'it' : `"${text}"`} is no address of a device; ${accepted}`)
  }

  /** @returns undefined if the value is not an address. */
  #place<S extends string>(
    at: readonly string[],
    value: JsonValue,
    ports: Readonly<Record<S, number>>,
    fallback: S,
  ): { readonly endpoint: Endpoint; readonly scheme: S } | undefined {
    const text = this.#text(at, value)
    const isBare6 = !text.includes('[') && text.split(':').length > 2 && !text.includes('/')
    const [, scheme = fallback, rest = ''] = /^(?:([a-z]+:)\/\/)?([^/]*)\/?$/.exec(isBare6 ? `[${text}]` : text) ?? []
    const [, host6, host4 = '', port] = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]@]+))(?::(\d{1,5}))?$/.exec(rest) ?? []
    const host = host6 ?? host4
    const isHost = host6 === undefined ? HOST.test(host) : isIPv6(host6)
    if (!isHost || !Object.hasOwn(ports, scheme)) return undefined
    const number = Number(port ?? ports[scheme as S])
    return number < 1 || number > 65_535 ? undefined : { endpoint: { host, port: number }, scheme: scheme as S }
  }

  #proof(
    at: readonly string[],
    given: JsonObject,
    isTls: boolean,
    isFound: boolean,
    fleetCa: string | undefined,
  ): Proof {
    const ca = this.#path_([...at, 'ca'], given.ca)
    if (!isTls) {
      for (const name of ['pin', 'ca'])
        if (given[name] !== undefined) this.#fail([...at, name], 'there is no TLS at an http: address')
      return { kind: 'none' }
    }
    if (given.pin !== undefined) {
      if (ca !== undefined) this.#fail([...at, 'ca'], 'give a pin or a CA, not both')
      const text = this.#text([...at, 'pin'], given.pin)
      const [, pin] = PIN.exec(text) ?? []
      if (pin !== undefined) return { kind: 'pin', pin }
      if (FINGERPRINT.test(text)) return { kind: 'fingerprint', fingerprint: text.toUpperCase() }
      this.#fail([...at, 'pin'], 'give sha256//BASE64, or a SHA-256 fingerprint as 32 hexadecimal pairs with colons')
    }
    // Anybody on the network can announce a serial number.
    if (isFound) this.#fail(at, 'a device that is found by its serial number needs a pin')
    const path = ca ?? fleetCa
    if (path === undefined)
      this.#fail(at, 'https needs a pin, or a ca; see `receiverd key show --verbose` on the device, or its screen')
    return { kind: 'ca', path }
  }

  #secret(at: readonly string[], value: JsonValue): Secret {
    if (typeof value === 'string') {
      this.#hasSecrets = true
      return { kind: 'text', text: value }
    }
    const { file, env } = this.#object(at, value, ['file', 'env'])
    if ((file === undefined) === (env === undefined)) this.#fail(at, 'give either file or env')
    if (env !== undefined) return { kind: 'env', name: this.#text([...at, 'env'], env) }
    return { kind: 'file', path: resolve(dirname(this.#path), this.#text([...at, 'file'], file)) }
  }

  #settings(at: readonly string[], value: JsonValue | undefined): JsonObject {
    const settings = this.#object(at, value ?? {})
    this.#hasSecrets ||= hasSecret(settings)
    return settings
  }

  #refuseTwins(devices: readonly FleetDevice[]): void {
    const known = new Map<string, string>()
    for (const { name, endpoint, serial } of devices) {
      const places = [
        ['address', endpoint && `${endpoint.host.toLowerCase()} ${endpoint.port}`],
        ['serial number', serial],
      ] as const
      for (const [what, place] of places) {
        if (!place) continue
        const twin = known.get(`${what} ${place}`)
        if (twin !== undefined) this.#fail(['devices', name], `it has the same ${what} as ${twin}`)
        known.set(`${what} ${place}`, name)
      }
    }
  }

  #names(
    at: readonly string[],
    value: JsonValue | undefined,
    known: readonly string[],
    kind = 'group',
  ): readonly string[] {
    if (value === undefined) return []
    const names = Array.isArray(value) ? value : [value]
    return names.map((name, index) => {
      const text = this.#text([...at, ...(Array.isArray(value) ? [String(index)] : [])], name)
      if (known.includes(text)) return text
      const meant = closest(text, known)
      return this.#fail(at, `there is no ${kind} "${text}"${meant === undefined ? '' : `; did you mean ${meant}?`}`)
    })
  }

  #path_(at: readonly string[], value: JsonValue | undefined): string | undefined {
    return value === undefined ? undefined : resolve(dirname(this.#path), this.#text(at, value))
  }

  #text(at: readonly string[], value: JsonValue | undefined): string {
    if (value === undefined) return ''
    if (typeof value === 'string' && value !== '') return value
    return this.#fail(at, typeof value === 'string' ? 'it is empty' : 'must be text; put it between quotes')
  }

  #members(at: readonly string[], value: JsonValue | undefined): readonly (readonly [string, JsonValue])[] {
    const members = this.#object(at, value ?? {})
    const node = this.#document.getIn(at, true)
    const map = isAlias(node) ? node.resolve(this.#document) : node
    // An object has names like 101 first, whatever their order in the file.
    const order = isMap(map) ? map.items.map(({ key }) => (isScalar(key) ? String(key.value) : '')) : []
    const names = [...new Set([...order, ...Object.keys(members)])]
    return names.flatMap(name => {
      const member = Object.hasOwn(members, name) ? members[name] : undefined
      return member === undefined ? [] : [[name, member] as const]
    })
  }

  /** @param known The members that it may have; by default any. */
  #object(at: readonly string[], value: JsonValue, known?: readonly string[]): JsonObject {
    if (!isObject(value)) return this.#fail(at, 'must be a map, of NAME: VALUE')
    for (const name of Object.keys(value)) {
      if (!known || known.includes(name)) continue
      const meant = closest(name, known)
      this.#fail(
        [...at, name],
        meant === undefined ? `unknown; known are ${known.join(', ')}` : `did you mean ${meant}?`,
      )
    }
    return value
  }

  /** The document as JSON. Anything in YAML beyond that is refused. */
  #value(): JsonValue {
    let value: unknown
    try {
      value = this.#document.toJS({ maxAliasCount: 100 })
    } catch {
      throw new UsageError(`${this.#path}: an alias (*) has no anchor (&), or there are too many`)
    }
    try {
      return JSON.parse(JSON.stringify(value))
    } catch {
      throw new UsageError(`${this.#path}: an alias (*) contains itself`)
    }
  }

  #fail(at: readonly string[], what: string): never {
    const path = [...at]
    let node: unknown
    while (path.length > 0 && !node) {
      node = this.#document.getIn(path, true)
      path.pop()
    }
    const { range } = (node ?? {}) as { readonly range?: readonly number[] | null }
    const line = range?.[0] === undefined ? '' : `:${this.#lines.linePos(range[0]).line}`
    throw new UsageError(printable(`${this.#path}${line}: ${at.join('.')}: ${what}`))
  }
}

/** Whether a value contains a secret, also within lists. */
function hasSecret(value: JsonValue): boolean {
  if (typeof value === 'string') return SECRET_QUERY.test(value)
  if (Array.isArray(value)) return value.some(hasSecret)
  if (!isObject(value)) return false
  return Object.entries(value).some(
    ([name, member]) => (name === SECRET_MEMBER && member !== '' && member !== null) || hasSecret(member),
  )
}

/** `DUPLICATE_KEY` as words. */
function describeCode(code: string): string {
  return code.toLowerCase().replaceAll('_', ' ')
}
