import { isIP } from 'node:net'
import { closest } from '../../hal/format/closest.ts'
import { grantsOf } from '../auth/grants.ts'
import { parseDuration, SUBJECT, type TokenRequest } from '../auth/token.ts'
import type { Flags } from '../config.ts'
import { MAX_SUBJECT_LENGTH } from '../limits.ts'
import { PROTOCOL } from '../sessions/session.ts'
import { RESTARTS, type Restart } from '../update/update.ts'
import { UsageError } from '../usage-error.ts'
import { parseFlags } from './flags.ts'
import { helpFor } from './help.ts'
import type { SessionRequest } from './session.ts'
import type { LoadOptions } from './settings.ts'
import type { InstallChoices } from './update.ts'

export type Command =
  | {
      readonly name: 'serve'
      readonly flags: Flags
    }
  | {
      readonly name: 'key rotate'
      readonly flags: Flags
      /** The file with the new key; `-` is standard input. */
      readonly keyFile: string | undefined
      /** Whether to remove the issuers that clients of the API added. */
      readonly removesIssuers: boolean
    }
  | {
      readonly name: 'key show'
      readonly flags: Flags
      readonly isVerbose: boolean
    }
  | {
      readonly name: 'token'
      readonly flags: Flags
      readonly token: TokenRequest
    }
  | {
      readonly name: 'session'
      readonly flags: Flags
      readonly session: SessionRequest
    }
  | {
      readonly name: 'discover'
      readonly flags: Flags
      readonly isJson: boolean
    }
  | {
      readonly name: 'config save'
      readonly flags: Flags
      /** Undefined or `-`: standard output. */
      readonly file: string | undefined
      readonly withIdentity: boolean
    }
  | {
      readonly name: 'config load'
      readonly flags: Flags
      /** `-` is standard input. */
      readonly file: string
      readonly options: LoadOptions
    }
  | {
      readonly name: 'update status'
      readonly flags: Flags
    }
  | {
      readonly name: 'update install'
      readonly flags: Flags
      readonly file: string
      readonly choices: InstallChoices
    }
  | {
      readonly name: 'update discard' | 'update rollback'
      readonly flags: Flags
      readonly isSure: boolean
    }
  | {
      /** For receiverd-judge.service. */
      readonly name: 'update judge'
      readonly flags: Flags
    }
  | { readonly name: 'print'; readonly text: string }

const OPTIONS = {
  listen: { type: 'string' },
  root: { type: 'string' },
  'state-dir': { type: 'string' },
  role: { type: 'string', multiple: true },
  'expires-in': { type: 'string' },
  subject: { type: 'string' },
  engines: { type: 'string' },
  protocol: { type: 'string' },
  name: { type: 'string' },
  model: { type: 'string' },
  'device-id': { type: 'string' },
  address: { type: 'string' },
  json: { type: 'boolean' },
  verbose: { type: 'boolean' },
  'key-file': { type: 'string' },
  'remove-issuers': { type: 'boolean' },
  'with-identity': { type: 'boolean' },
  partial: { type: 'boolean' },
  yes: { type: 'boolean', short: 'y' },
  restart: { type: 'string' },
  'allow-older': { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const

type Option = keyof typeof OPTIONS

const PLACE = ['root', 'state-dir'] as const
/** The options that each command accepts. */
const COMMANDS = {
  serve: ['listen', 'engines', ...PLACE],
  'key show': ['verbose', ...PLACE],
  'key rotate': ['key-file', 'remove-issuers', ...PLACE],
  'config save': ['with-identity', 'listen', ...PLACE],
  'config load': ['yes', 'partial', 'listen', ...PLACE],
  'update status': ['listen', ...PLACE],
  'update install': ['yes', 'restart', 'allow-older', 'listen', ...PLACE],
  'update discard': ['yes', 'listen', ...PLACE],
  'update rollback': ['yes', 'listen', ...PLACE],
  token: ['role', 'expires-in', 'subject', ...PLACE],
  discover: ['json'],
  'update judge': ['listen', ...PLACE],
  session: ['protocol', 'name', 'model', 'device-id', 'address', 'engines'],
} as const satisfies Record<string, readonly Option[]>

type CommandName = keyof typeof COMMANDS

/** Groups of commands, which are not commands by themselves. Their help is that of their commands. */
const GROUPS = new Map([
  ['key', 'show or rotate'],
  ['config', 'save or load'],
  ['update', 'status, install, discard or rollback'],
])
/** As a word, equivalent to `--help`. */
const HELP = 'help'
const NAMES = [...Object.keys(COMMANDS), ...GROUPS.keys(), HELP]

/**
 * Parses a command line.
 * @throws {UsageError} with one line that names the mistake and where to find help.
 */
export function parseCommand(argv: readonly string[], version: string): Command {
  const [own, command] = splitAtCommand(argv)
  const { values, positionals } = parse(own)
  if (values.version) return { name: 'print', text: `receiverd ${version}\n` }
  const words = positionals.filter(word => word !== HELP)
  const [name, rest] = splitAtArguments(words)
  const [group = ''] = words
  const commands = words.length === 1 ? GROUPS.get(group) : undefined
  if (!name && !commands && words.length > 0) throw new UsageError(unknownCommand(words))
  if (values.help || words.length < positionals.length) return { name: 'print', text: helpFor(words[0]) }
  if (commands) throw new UsageError(`${group}: missing command, ${commands}; see receiverd ${group} --help`)
  if (!name) throw new UsageError('missing command; see receiverd --help')
  const takesFile = group === 'config' || name === 'update install'
  const [file, extra] = takesFile ? rest : [undefined, ...rest]
  if (extra !== undefined)
    throw new UsageError(`${name} takes ${takesFile ? 'one file' : 'no argument'}: "${extra}"${hintFor(name, extra)}`)
  for (const option of Object.keys(values))
    if (!COMMANDS[name].some(accepted => accepted === option)) throw new UsageError(unknownOption(`--${option}`, words))
  if (name === 'session') return { name, flags: values, session: sessionRequest(values, command) }
  if (command) throw new UsageError(`unexpected argument "--"; see receiverd --help`)
  if (name === 'key show') return { name, flags: values, isVerbose: values.verbose ?? false }
  if (name === 'key rotate')
    return { name, flags: values, keyFile: values['key-file'], removesIssuers: values['remove-issuers'] ?? false }
  if (name === 'config save') return { name, flags: values, file, withIdentity: values['with-identity'] ?? false }
  if (name === 'config load') {
    if (file === undefined) throw new UsageError('config load: missing FILE; see receiverd config --help')
    const { yes = false, partial = false } = values
    return { name, flags: values, file, options: { isSure: yes, isPartial: partial } }
  }
  if (name === 'update install') return { name, flags: values, ...installRequest(values, file) }
  if (name === 'update discard' || name === 'update rollback')
    return { name, flags: values, isSure: values.yes ?? false }
  if (name === 'discover') return { name, flags: values, isJson: values.json ?? false }
  return name === 'token' ? { name, flags: values, token: tokenRequest(values) } : { name, flags: values }
}

/** Splits the arguments at `--`. */
function splitAtCommand(argv: readonly string[]): [own: readonly string[], command: readonly string[] | undefined] {
  const at = argv.indexOf('--')
  return at < 0 ? [argv, undefined] : [argv.slice(0, at), argv.slice(at + 1)]
}

function parse(argv: readonly string[]) {
  return parseFlags(argv, OPTIONS, 'receiverd', (option, positionals) => {
    throw new UsageError(unknownOption(option, positionals))
  })
}

/** Splits off the command that the words begin with, which is one word or two, from what follows it. */
function splitAtArguments(words: readonly string[]): [name: CommandName | undefined, rest: readonly string[]] {
  for (const count of [2, 1]) {
    const name = words.slice(0, count).join(' ')
    if (isCommand(name)) return [name, words.slice(count)]
  }
  return [undefined, words]
}

function unknownCommand(words: readonly string[]): string {
  const [word = ''] = words
  const isGroup = GROUPS.has(word)
  const meant = closest(words.slice(0, 2).join(' '), NAMES) ?? (isGroup ? undefined : closest(word, NAMES))
  const help = isGroup ? `receiverd ${word} --help` : 'receiverd --help'
  return `unknown command "${words.join(' ')}"; ${meant ? `did you mean ${meant}?` : `see ${help}`}`
}

/** @param words The command, and what follows it. */
function unknownOption(option: string, words: readonly string[]): string {
  const [name] = splitAtArguments(words)
  const known: readonly string[] = name ? COMMANDS[name] : Object.keys(OPTIONS)
  const meant = closest(option.replace(/^-+/, ''), known)
  const help = name ? `receiverd ${words[0]} --help` : 'receiverd --help'
  return `${name ?? 'receiverd'} has no option ${option}; ${meant ? `did you mean --${meant}?` : `see ${help}`}`
}

/** Returns how to pass something that was given as an argument. */
function hintFor(name: CommandName, argument: string): string {
  if (name === 'token' && grantsOf(argument)) return `; did you mean --role ${argument}?`
  return name === 'session' ? '; put the command after --, as in: receiverd session … -- mirror' : ''
}

interface TokenOptions {
  readonly role?: readonly string[] | undefined
  readonly subject?: string | undefined
  readonly 'expires-in'?: string | undefined
}

/** Accepts only requests for a token that the service accepts, and that does not expire before it is printed. */
export function tokenRequest(values: TokenOptions, program = 'receiverd'): TokenRequest {
  const roles = [...new Set(values.role)]
  if (roles.length === 0)
    throw new UsageError(`--role: a token needs at least one role, such as --role admin:r; see ${program} token --help`)
  for (const role of roles)
    if (!grantsOf(role)) throw new UsageError(`--role: "${role}" is not admin or moderator with :r, :w or :rw`)
  const { subject, 'expires-in': duration } = values
  const expiresInMs = duration === undefined ? undefined : parseDuration(duration)
  if (duration !== undefined && expiresInMs === undefined)
    throw new UsageError(`--expires-in: "${duration}" is not a duration, such as 90s, 15m, 8h or 30d`)
  if (expiresInMs === 0) throw new UsageError(`--expires-in: "${duration}" is too short; the minimum is 1s`)
  if (subject !== undefined && !new RegExp(SUBJECT, 'u').test(subject))
    throw new UsageError(`--subject: must be 1 to ${MAX_SUBJECT_LENGTH} characters, none of them a control character`)
  return { roles, expiresInMs, subject }
}

function sessionRequest(values: ReturnType<typeof parse>['values'], command: readonly string[] = []): SessionRequest {
  const { protocol = '', name, model = '', 'device-id': deviceId = '', address = '' } = values
  if (!new RegExp(PROTOCOL).test(protocol))
    throw new UsageError('--protocol: give 1 to 32 lower-case letters, digits and hyphens, such as miracast')
  if (!name) throw new UsageError('--name: give the name that the moderator sees')
  if (address !== '' && isIP(address) === 0) throw new UsageError(`--address: "${address}" is not an IP address`)
  const [program, ...args] = command
  if (!program) throw new UsageError('session: missing command; put it after --, as in: receiverd session … -- mirror')
  return { device: { protocol, name, model, deviceId, address }, argv: [program, ...args] }
}

function installRequest(values: ReturnType<typeof parse>['values'], file: string | undefined) {
  const { yes: isSure = false, 'allow-older': allowOlder = false } = values
  if (file === undefined) throw new UsageError('update install: missing FILE; see receiverd update --help')
  if (file === '-') throw new UsageError('update install: FILE must be a file, because its size is sent first: "-"')
  return { file, choices: { isSure, allowOlder, restart: restartOf(values.restart) } }
}

export function restartOf(text: string | undefined): Restart | undefined {
  const restart = RESTARTS.find(each => each === text)
  if (text === undefined || restart) return restart
  throw new UsageError(`--restart: "${text}" is none of ${RESTARTS.join(', ')}`)
}

function isCommand(name: string): name is CommandName {
  return Object.hasOwn(COMMANDS, name)
}
