import type { ListenOptions } from 'node:net'
import { errorCode, reasonOf } from '../hal/errors.ts'
import { Root, realRoot } from '../hal/files/root.ts'
import { closest } from '../hal/format/closest.ts'
import { LIMITS, type Limits } from './limits.ts'
import { ALL_OPTIONS, OPTIONS } from './options.ts'
import { UsageError } from './usage-error.ts'

/** Origins whose pages may read responses: `*`, or a list of serialized origins (`https://panel.example`). */
export type Origins = '*' | readonly string[]

export interface Config {
  readonly listen: readonly Listen[]
  /** Where engines connect; empty if they cannot. */
  readonly engines: readonly Listen[]
  /** The root of another system, or `/`. */
  readonly root: string
  readonly stateDir: string
  /** Where systemd puts credentials (systemd.exec(5)); undefined if it passes none. */
  readonly credentialsDir: string | undefined
  readonly origins: Origins
  /** Whether to serve the Device Management page. */
  readonly page: boolean
  /** Whether to announce the device on the network. */
  readonly announce: boolean
  /** Whether the screen shows a QR code that signs in with the API key, until the key is first used. */
  readonly screenKey: boolean
  /** The folder of the boot partition whose settings are applied; undefined if there is none. */
  readonly card: string | undefined
  /** The folder for bundles and the record of an update; undefined if the device cannot be updated. */
  readonly update: string | undefined
  /** The file that makes the next boot perform a factory reset; undefined if the service does it itself. */
  readonly reset: string | undefined
  /** The port of a TLS server in front; undefined if there is none. */
  readonly tlsPort: number | undefined
  readonly limits: Limits
}

/** A host name or an IP address without brackets, and a port. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** An address, a path, or a socket opened by systemd. */
export type Listen = ListenOptions | { readonly fd: number }

/** The given flags. For all others, the environment applies, and then the defaults. */
export interface Flags {
  readonly listen?: string | undefined
  readonly engines?: string | undefined
  readonly root?: string | undefined
  readonly 'state-dir'?: string | undefined
}

export type Environment = Readonly<Record<string, string | undefined>>

const ENGINES_SOCKET = '/run/receiverd/engines.sock'
const STATE_DIR = '/var/lib/receiverd'
/** The first file descriptor that systemd passes (sd_listen_fds(3)). */
const FIRST_SOCKET = 3
/** The `FileDescriptorName=` of the socket for engines. */
const ENGINES = 'engines'
/** Maximum length of a path in a socket address, in bytes without its NUL (unix(7)). */
const MAX_SOCKET_PATH = 107
const MAX_PORT = 65_535
const ORIGIN = /^https?:\/\/[^/\s,*]+$/
/** The oldest version that the tests run on, for 32-bit ARM. Building and testing need a later one: see package.json. */
const MIN_NODE = [20, 11] as const
const PREFIX = 'RECEIVERD_'
/** The names of the variables that are options, without the prefix. */
const NAMES = ALL_OPTIONS.filter(({ env }) => env.startsWith(PREFIX)).map(({ env }) => env.slice(PREFIX.length))

/** @throws {UsageError} naming the option and what it accepts. */
export function readConfig(flags: Flags, env: Environment, pid: number): Config {
  return {
    listen: readListen(flags, env, pid),
    engines: readEngines(flags, env, pid),
    root: readRoot(flags, env),
    stateDir: readStateDir(flags, env),
    credentialsDir: env.CREDENTIALS_DIRECTORY || undefined,
    origins: readOrigins(env),
    page: readSwitch(env, OPTIONS.page),
    announce: readSwitch(env, OPTIONS.announce),
    screenKey: readSwitch(env, OPTIONS.screenKey),
    card: readPath(env, OPTIONS.card),
    update: readUpdateFolder(env),
    reset: readPath(env, OPTIONS.reset),
    tlsPort: readTlsPort(env),
    limits: readLimits(env),
  }
}

/** Returns the real path of the root: `//`, `/etc/..` and a link to `/` are the running system, too. */
export function readRoot(flags: Flags, env: Environment): string {
  const [name, value] =
    flags.root === undefined ? ['RECEIVERD_ROOT', env.RECEIVERD_ROOT || OPTIONS.root.fallback] : ['--root', flags.root]
  if (!value.startsWith('/')) throw new UsageError(`${name}: "${value}" is not an absolute path`)
  try {
    return realRoot(value)
  } catch (error) {
    const why = errorCode(error) === 'ENOENT' ? 'does not exist' : `cannot be used: ${reasonOf(error)}`
    throw new UsageError(`${name}: "${value}" ${why}`)
  }
}

/** Under the root unless given: with another root, nothing of the host is used, whatever links that root contains. */
export function readStateDir(flags: Flags, env: Environment): string {
  // systemd.exec(5): with more than one StateDirectory= the variable lists them, separated by colons.
  const given = flags['state-dir'] ?? env.STATE_DIRECTORY?.split(':', 1)[0]
  if (!given) return defaultStateDir(readRoot(flags, env))
  if (given.startsWith('/')) return given
  throw new UsageError(`${flags['state-dir'] ? '--state-dir' : 'STATE_DIRECTORY'}: "${given}" is not an absolute path`)
}

function defaultStateDir(root: string): string {
  try {
    return new Root(root).resolve(STATE_DIR)
  } catch (error) {
    throw new UsageError(`${STATE_DIR} under the root ${root} cannot be used: ${reasonOf(error)}`)
  }
}

/** Returns a warning for each unknown variable with this prefix: a misspelled option would silently have no effect. */
export function unknownVariables(env: Environment): readonly string[] {
  return Object.keys(env)
    .filter(name => name.startsWith(PREFIX) && !NAMES.includes(name.slice(PREFIX.length)))
    .map(name => {
      const meant = closest(name.slice(PREFIX.length), NAMES)
      const hint = meant === undefined ? 'see receiverd serve --help' : `did you mean ${PREFIX}${meant}?`
      return `${name} is not an option and has no effect; ${hint}`
    })
}

/** @throws {UsageError} if this Node is too old: the service would start, but fail on some requests. */
export function requireNode(version: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major > MIN_NODE[0] || (major === MIN_NODE[0] && minor >= MIN_NODE[1])) return
  throw new UsageError(`Node ${MIN_NODE.join('.')} or later is needed, and this is ${version}`)
}

/** Returns the sockets that systemd passes: those named for the engines, or all others, for the API (sd_listen_fds(3)). */
function passedSockets(env: Environment, pid: number, forEngines: boolean): readonly Listen[] {
  if (env.LISTEN_PID !== String(pid)) return []
  const names = (env.LISTEN_FDNAMES ?? '').split(':')
  return Array.from({ length: Number(env.LISTEN_FDS) }, (_, at) => ({ fd: FIRST_SOCKET + at })).filter(
    (_, at) => (names[at] === ENGINES) === forEngines,
  )
}

function readEngines(flags: Flags, env: Environment, pid: number): readonly Listen[] {
  const passed = passedSockets(env, pid, true)
  if (passed.length > 0 || !(flags.engines || env.RECEIVERD_ENGINES)) return passed
  return [{ path: readEnginesPath(flags, env) }]
}

/** Returns the path of the engines' socket. @throws {UsageError} */
export function readEnginesPath(flags: Flags, env: Environment): string {
  const [name, path] =
    flags.engines === undefined
      ? ['RECEIVERD_ENGINES', env.RECEIVERD_ENGINES || ENGINES_SOCKET]
      : ['--engines', flags.engines]
  if (Buffer.byteLength(path) > MAX_SOCKET_PATH)
    throw new UsageError(`${name}: the path must not be longer than ${MAX_SOCKET_PATH} bytes`)
  return path
}

function readListen(flags: Flags, env: Environment, pid: number): readonly Listen[] {
  const passed = passedSockets(env, pid, false)
  return passed.length > 0 ? passed : [readAddress(flags, env)]
}

/** Returns the address to listen on, unless systemd passes a socket. @throws {UsageError} */
export function readAddress(flags: Flags, env: Environment): Address {
  const [name, value] =
    flags.listen === undefined
      ? ['RECEIVERD_LISTEN', env.RECEIVERD_LISTEN || OPTIONS.listen.fallback]
      : ['--listen', flags.listen]
  const match = /^(?:\[([0-9A-Fa-f:.%\w]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(value)
  if (!match)
    throw new UsageError(`${name}: "${value}" is not ADDRESS:PORT, such as ${OPTIONS.listen.fallback} or [::]:80`)
  const port = Number(match[3])
  if (port > MAX_PORT) throw new UsageError(`${name}: the port ${port} is not from 0 to ${MAX_PORT}`)
  return { host: match[1] ?? match[2] ?? '', port }
}

function readOrigins(env: Environment): Origins {
  const value = env.RECEIVERD_ORIGINS?.trim()
  if (!value || value === '*') return '*'
  const origins = value.split(/[\s,]+/)
  const wrong = origins.find(origin => !ORIGIN.test(origin) || !URL.canParse(origin))
  // As browsers send them: they leave out the usual port.
  if (wrong === undefined) return origins.map(origin => new URL(origin).origin)
  throw new UsageError(
    `RECEIVERD_ORIGINS: "${wrong}" is not an origin, such as https://panel.example; separate several with commas`,
  )
}

function readSwitch(env: Environment, { env: name, fallback }: { env: string; fallback: 'on' | 'off' }): boolean {
  const value = env[name] || fallback
  if (value === 'on' || value === 'off') return value === 'on'
  throw new UsageError(`${name}: "${value}" is neither on nor off`)
}

/** Returns the folder for bundles and the record of an update. @throws {UsageError} */
export function readUpdateFolder(env: Environment): string | undefined {
  return readPath(env, OPTIONS.update)
}

function readPath(env: Environment, { env: name, example }: { env: string; example: string }): string | undefined {
  const path = env[name]
  if (!path) return undefined
  if (/^(?:\/[^/\s]+)+$/.test(path)) return path
  throw new UsageError(`${name}: "${path}" is not an absolute path, such as ${example}`)
}

export function readTlsPort({ RECEIVERD_TLS_PORT: text }: Environment): number | undefined {
  if (!text) return undefined
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (port >= 1 && port <= MAX_PORT) return port
  throw new UsageError(`RECEIVERD_TLS_PORT: "${text}" is not a port from 1 to ${MAX_PORT}`)
}

function readLimits(env: Environment): Limits {
  const limits = LIMITS.map(([name, { env: variable, fallback, min, max }]) => {
    const text = env[variable]
    if (!text) return [name, fallback]
    const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return [name, value]
    throw new UsageError(`${variable}: "${text}" is not a whole number from ${min} to ${max}`)
  })
  const read = Object.fromEntries(limits) as Limits
  // If only the number of streams was raised, leave enough connections for requests.
  return env.RECEIVERD_CONNECTIONS ? read : { ...read, connections: Math.max(read.connections, 2 * read.streams) }
}
