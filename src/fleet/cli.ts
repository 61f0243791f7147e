import { closest } from '../../hal/format/closest.ts'
import { ISSUER_NAME } from '../auth/issuer.ts'
import { parseDuration } from '../auth/token.ts'
import { restartOf, tokenRequest } from '../cli/cli.ts'
import { parseFlags } from '../cli/flags.ts'
import { MAX_TOKEN_AGE_S, MIN_TOKEN_AGE_S } from '../limits.ts'
import type { Restart } from '../update/update.ts'
import { UsageError } from '../usage-error.ts'
import { helpFor } from './help.ts'
import { AUDIENCE, type IssuedTokenRequest } from './token.ts'
import { parseWaves, type Waves } from './waves.ts'

/** A part of a fleet. */
export interface Chosen {
  readonly fleet: string
  readonly groups: readonly string[]
  readonly devices: readonly string[]
}

/** The options of every command that asks devices. */
export interface Common extends Chosen {
  readonly isJson: boolean
  readonly limit: number
  readonly timeoutMs: number
}

/** The options of every command that changes devices. */
export interface Changing extends Common {
  readonly isSure: boolean
  readonly waves: Waves
  readonly isKeptGoing: boolean
}

/** The options of every command that prints something for another program. */
export interface Printing {
  /** The file to write it to, in place of stdout. */
  readonly output: string | undefined
}

export type Command =
  | { readonly name: 'print'; readonly text: string }
  | { readonly name: 'discover'; readonly isJson: boolean }
  | ({ readonly name: 'token'; readonly keyFile: string; readonly token: IssuedTokenRequest } & Printing)
  | ({ readonly name: 'list' | 'diff' } & Common)
  | ({ readonly name: 'targets' } & Chosen & Printing)
  | ({ readonly name: 'inventory' } & Chosen)
  | ({ readonly name: 'bridge' } & Common)
  | ({ readonly name: 'apply'; readonly isTrial: boolean } & Changing)
  | ({ readonly name: 'run'; readonly operation: string } & Changing)
  | ({ readonly name: 'certificates' } & Common & Printing)
  | ({
      readonly name: 'add-issuer'
      readonly issuer: string
      readonly file: string
      readonly roles: readonly string[]
      readonly maxAgeS: number | undefined
    } & Changing)
  | ({ readonly name: 'remove-issuer'; readonly issuer: string } & Changing)
  | ({
      readonly name: 'update'
      readonly file: string
      readonly restart: Restart
      readonly allowOlder: boolean
    } & Changing)
  | ({ readonly name: 'discard-update' } & Changing)
  | ({ readonly name: 'rotate-keys'; readonly isSure: boolean; readonly removeIssuers: boolean } & Common)
  | ({ readonly name: 'backup'; readonly folder: string; readonly withIdentity: boolean } & Common)
  | ({ readonly name: 'restore'; readonly folder: string; readonly isTrial: boolean } & Changing)

const OPTIONS = {
  fleet: { type: 'string' },
  group: { type: 'string', multiple: true },
  device: { type: 'string', multiple: true },
  json: { type: 'boolean' },
  'at-once': { type: 'string' },
  timeout: { type: 'string' },
  yes: { type: 'boolean', short: 'y' },
  waves: { type: 'string' },
  confirm: { type: 'boolean' },
  restart: { type: 'string' },
  'allow-older': { type: 'boolean' },
  role: { type: 'string', multiple: true },
  'expires-in': { type: 'string' },
  subject: { type: 'string' },
  issuer: { type: 'string' },
  'issuer-key': { type: 'string' },
  'max-age': { type: 'string' },
  audience: { type: 'string', multiple: true },
  'with-identity': { type: 'boolean' },
  'keep-going': { type: 'boolean' },
  'remove-issuers': { type: 'boolean' },
  output: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const

type Option = keyof typeof OPTIONS

const CHOSEN = ['fleet', 'group', 'device'] as const
const COMMON = [...CHOSEN, 'json', 'at-once', 'timeout'] as const
const CHANGING = [...COMMON, 'yes', 'waves', 'keep-going'] as const
/** The options that each command accepts. */
const COMMANDS = {
  discover: ['json'],
  token: ['issuer', 'issuer-key', 'role', 'audience', 'expires-in', 'subject', 'output'],
  targets: [...CHOSEN, 'output'],
  inventory: CHOSEN,
  bridge: [...CHOSEN, 'timeout'],
  list: COMMON,
  diff: COMMON,
  apply: [...CHANGING, 'confirm'],
  run: CHANGING,
  update: [...CHANGING, 'restart', 'allow-older'],
  'discard-update': CHANGING,
  'rotate-keys': [...COMMON, 'yes', 'remove-issuers'],
  'add-issuer': [...CHANGING, 'role', 'max-age'],
  'remove-issuer': CHANGING,
  certificates: [...CHOSEN, 'at-once', 'output'],
  backup: [...COMMON, 'with-identity'],
  restore: [...CHANGING, 'confirm'],
} as const satisfies Record<string, readonly Option[]>

export type CommandName = keyof typeof COMMANDS
/** The arguments that a command takes. */
const ARGUMENTS: Partial<Record<CommandName, readonly string[]>> = {
  run: ['OPERATION'],
  update: ['BUNDLE'],
  backup: ['FOLDER'],
  restore: ['FOLDER'],
  'add-issuer': ['NAME', 'FILE'],
  'remove-issuer': ['NAME'],
}

/** Operations of `POST /api/v1/operations` that are safe to run on many devices. */
const OPERATIONS: readonly string[] = ['identify', 'reboot', 'restart-receiver']

/** How long a token is valid, in milliseconds; devices accept none that is valid for longer. */
const TOKEN_MS = { fallback: 3_600_000, min: 1_000, max: 30 * 24 * 3_600_000 }

const NAME_OF_ISSUER = '1 to 32 lower-case letters, digits and hyphens'

/** The word that means the same as `--help`. */
const HELP = 'help'
const PROGRAM = 'receiverd-fleet'
const NAMES = [...Object.keys(COMMANDS), HELP]
/** How many devices at once, and the seconds that a device has to answer. */
const AT_ONCE = { fallback: 20, max: 200 }
const TIMEOUT_S = { fallback: 10, max: 600 }
/** The first device shows whether the change works. */
const WAVES: Waves = [1, Number.POSITIVE_INFINITY]

/** Parses a command line. @throws {UsageError} one line that names the mistake and where to look for help. */
export function parseCommand(argv: readonly string[], version: string): Command {
  const { values, positionals } = parse(argv)
  if (values.version) return { name: 'print', text: `${PROGRAM} ${version}\n` }
  const words = positionals.filter(word => word !== HELP)
  const [name, ...rest] = words
  if (name !== undefined && !isCommand(name)) throw new UsageError(unknownCommand(name))
  if (values.help || words.length < positionals.length) return { name: 'print', text: helpFor(name) }
  if (name === undefined) throw new UsageError(`missing command; see ${PROGRAM} --help`)
  for (const option of Object.keys(values))
    if (!COMMANDS[name].some(accepted => accepted === option))
      throw new UsageError(unknownOption(`--${option}`, [name]))
  const taken = ARGUMENTS[name] ?? []
  const extra = rest[taken.length]
  if (extra !== undefined)
    throw new UsageError(
      `${name} takes ${taken.length === 0 ? 'no argument' : `${taken.join(' and ')} alone`}: "${extra}"`,
    )
  const missing = taken.find((_, at) => !rest[at])
  if (missing !== undefined) throw new UsageError(`${name}: missing ${missing}; see ${PROGRAM} ${name} --help`)
  const [given = '', second = ''] = rest
  if (values.output === '') throw new UsageError('--output: give the path of a file')
  const common = commonOf(values)
  switch (name) {
    case 'discover':
      return { name, isJson: common.isJson }
    case 'token':
      return { name, ...issuedToken(values), output: values.output }
    case 'targets':
      return { name, ...common, output: values.output }
    case 'certificates':
      return { name, ...common, output: values.output }
    case 'inventory':
    case 'bridge':
    case 'list':
    case 'diff':
      return { name, ...common }
    case 'apply':
      return { name, ...changingOf(values, common), isTrial: values.confirm ?? false }
    case 'run':
      return { name, ...changingOf(values, common), operation: operationOf(given) }
    case 'update':
      return {
        name,
        ...changingOf(values, common),
        file: given,
        restart: restartOf(values.restart) ?? 'now',
        allowOlder: values['allow-older'] ?? false,
      }
    case 'discard-update':
      return { name, ...changingOf(values, common) }
    case 'rotate-keys':
      return { name, ...common, isSure: values.yes ?? false, removeIssuers: values['remove-issuers'] ?? false }
    case 'add-issuer': {
      if (!values.role)
        throw new UsageError(`${name}: give --role, such as --role admin:r; see ${PROGRAM} ${name} --help`)
      const { roles } = tokenRequest(values, PROGRAM)
      const maxAgeS = ageOf(values['max-age'])
      return { name, ...changingOf(values, common), issuer: issuerNamed(name, given), file: second, roles, maxAgeS }
    }
    case 'remove-issuer':
      return { name, ...changingOf(values, common), issuer: issuerNamed(name, given) }
    case 'backup':
      return { name, ...common, folder: given, withIdentity: values['with-identity'] ?? false }
    case 'restore':
      return { name, ...changingOf(values, common), folder: given, isTrial: values.confirm ?? false }
  }
}

type Values = ReturnType<typeof parse>['values']

function parse(argv: readonly string[]) {
  return parseFlags(argv, OPTIONS, PROGRAM, (option, positionals) => {
    throw new UsageError(unknownOption(option, positionals))
  })
}

function commonOf(values: Values): Common {
  const { fleet = 'fleet.yaml', group = [], device = [], json = false } = values
  return {
    fleet,
    groups: group,
    devices: device,
    isJson: json,
    limit: numberOf('--at-once', values['at-once'], AT_ONCE),
    timeoutMs: 1000 * numberOf('--timeout', values.timeout, TIMEOUT_S),
  }
}

function changingOf(values: Values, common: Common): Changing {
  const waves = values.waves === undefined ? WAVES : parseWaves(values.waves)
  if (!waves) throw new UsageError(`--waves: "${values.waves}" is no list of sizes, such as 2,10,rest`)
  return { ...common, isSure: values.yes ?? false, isKeptGoing: values['keep-going'] ?? false, waves }
}

function issuedToken(values: Values): { readonly keyFile: string; readonly token: IssuedTokenRequest } {
  const { issuer = '', 'issuer-key': keyFile = '', audience = [] } = values
  if (!ISSUER_NAME.test(issuer))
    throw new UsageError(`--issuer: give the name under which the devices know it: ${NAME_OF_ISSUER}`)
  if (keyFile === '') throw new UsageError('--issuer-key: give the file of its private key')
  for (const each of audience)
    if (!AUDIENCE.test(each)) throw new UsageError(`--audience: "${each}" is none of serial:S, host:H, group:G and *`)
  const { expiresInMs = TOKEN_MS.fallback, ...request } = tokenRequest(values, PROGRAM)
  if (expiresInMs < TOKEN_MS.min || expiresInMs > TOKEN_MS.max) throw new UsageError('--expires-in: give 1s to 30d')
  return { keyFile, token: { ...request, expiresInMs, issuer, audience } }
}

function issuerNamed(command: CommandName, name: string): string {
  if (ISSUER_NAME.test(name)) return name
  throw new UsageError(`${command}: "${name}" is no name of an issuer: give ${NAME_OF_ISSUER}`)
}

function ageOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const seconds = (parseDuration(text) ?? 0) / 1000
  if (seconds >= MIN_TOKEN_AGE_S && seconds <= MAX_TOKEN_AGE_S) return seconds
  throw new UsageError(`--max-age: "${text}" is not a duration from 1m to 30d, such as 90s, 12h or 7d`)
}

function operationOf(name: string): string {
  if (OPERATIONS.includes(name)) return name
  // A factory reset gives a device a key that nobody here knows.
  if (name === 'factory-reset')
    throw new UsageError('run: a factory reset replaces the API key; do it on the page of the device')
  const meant = closest(name, OPERATIONS)
  throw new UsageError(
    `run: "${name}" is none of ${OPERATIONS.join(', ')}${meant === undefined ? '' : `; did you mean ${meant}?`}`,
  )
}

function numberOf(option: string, text: string | undefined, { fallback, max }: { fallback: number; max: number }) {
  if (text === undefined) return fallback
  const value = /^\d{1,4}$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) throw new UsageError(`${option}: "${text}" is not a whole number from 1 to ${max}`)
  return value
}

function unknownCommand(name: string): string {
  const meant = closest(name, NAMES)
  return `unknown command "${name}"; ${meant === undefined ? `see ${PROGRAM} --help` : `did you mean ${meant}?`}`
}

/** @param words The words of the command line, the command first. */
function unknownOption(option: string, [name = '']: readonly string[]): string {
  const known: readonly string[] = isCommand(name) ? COMMANDS[name] : Object.keys(OPTIONS)
  const meant = closest(option.replace(/^-+/, ''), known)
  const [owner, help] = isCommand(name) ? [name, `${PROGRAM} ${name} --help`] : [PROGRAM, `${PROGRAM} --help`]
  return `${owner} has no option ${option}; ${meant === undefined ? `see ${help}` : `did you mean --${meant}?`}`
}

function isCommand(name: string): name is CommandName {
  return Object.hasOwn(COMMANDS, name)
}
