import { parseArgs } from 'node:util'
import { grantsOf } from './auth/grants.ts'
import type { Flags } from './config.ts'
import { parseDuration, UsageError } from './config.ts'
import { BOUNDS } from './limits.ts'

export interface TokenRequest {
  readonly roles: readonly string[]
  readonly expiresInMs: number | undefined
  readonly subject: string | undefined
}

export type Command =
  | {
      readonly name: 'serve' | 'key show' | 'key rotate'
      readonly flags: Flags
    }
  | {
      readonly name: 'token'
      readonly flags: Flags
      readonly token: TokenRequest
    }
  | { readonly name: 'print'; readonly text: string }

const OPTIONS = {
  listen: { type: 'string' },
  root: { type: 'string' },
  'state-dir': { type: 'string' },
  role: { type: 'string', multiple: true },
  'expires-in': { type: 'string' },
  subject: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const

type Option = keyof typeof OPTIONS

const PLACE = ['root', 'state-dir'] as const
/** The options that each command takes. */
const COMMANDS = {
  serve: ['listen', ...PLACE],
  'key show': PLACE,
  'key rotate': PLACE,
  token: ['role', 'expires-in', 'subject', ...PLACE],
} as const satisfies Record<string, readonly Option[]>

/**
 * What a command line asks for.
 * @throws {UsageError} one line that says what is wrong and where the right is found.
 */
export function parseCommand(argv: readonly string[], version: string): Command {
  const { values, positionals } = parse(argv)
  const name = positionals.join(' ')
  if (values.version) return { name: 'print', text: `receiverd ${version}\n` }
  if (values.help) return { name: 'print', text: helpFor(positionals[0]) }
  if (name === '') throw new UsageError('no command; see receiverd --help')
  if (name === 'key') throw new UsageError('key takes a command, show or rotate; see receiverd key --help')
  if (!isCommand(name)) throw new UsageError(`"${name}" is not a command; see receiverd --help`)
  for (const option of Object.keys(values))
    if (!COMMANDS[name].some(taken => taken === option))
      throw new UsageError(`--${option} is not an option of ${name}; see receiverd ${positionals[0]} --help`)
  return name === 'token' ? { name, flags: values, token: tokenRequest(values) } : { name, flags: values }
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      options: OPTIONS,
      allowPositionals: true,
    })
  } catch (error) {
    // Node's messages are one or more sentences; the first names what is wrong.
    const [sentence = ''] = (error instanceof Error ? error.message : '').split(/\.\s/, 1)
    throw new UsageError(`${sentence.replace(/\.$/, '')}; see receiverd --help`)
  }
}

function tokenRequest(values: ReturnType<typeof parse>['values']): TokenRequest {
  const roles = values.role ?? []
  if (roles.length === 0) throw new UsageError('--role: a token needs at least one, such as --role admin:r')
  for (const role of roles)
    if (!grantsOf(role)) throw new UsageError(`--role: "${role}" is not admin or moderator with :r, :w or :rw`)
  const duration = values['expires-in']
  const expiresInMs = duration === undefined ? undefined : parseDuration(duration)
  if (duration !== undefined && expiresInMs === undefined)
    throw new UsageError(`--expires-in: "${duration}" is not a duration, such as 90s, 15m, 8h or 30d`)
  return { roles, expiresInMs, subject: values.subject }
}

function isCommand(name: string): name is keyof typeof COMMANDS {
  return Object.hasOwn(COMMANDS, name)
}

function helpFor(command: string | undefined): string {
  if (command === 'serve') return SERVE_HELP
  if (command === 'key') return KEY_HELP
  if (command === 'token') return TOKEN_HELP
  return HELP
}

const PLACE_HELP = `  --root DIR           another system's root (RECEIVERD_ROOT; default /)
  --state-dir DIR      where the API key is kept (STATE_DIRECTORY; default
                       /var/lib/receiverd below the root)`

const HELP = `receiverd serves the management API of a screen-mirroring receiver.

Usage:
  receiverd serve              run the service
  receiverd key show           print the API key
  receiverd key rotate         replace the API key; every token of the old one
                               is revoked at once
  receiverd token --role R     print a token (JWT) that carries only some grants
  receiverd --version
  receiverd COMMAND --help     the options of a command

Exit status: 0 done, 1 failed, 2 wrong call.
`

const SERVE_HELP = `receiverd serve: run the service until SIGTERM or SIGINT.

Usage: receiverd serve [--listen ADDRESS:PORT] [--root DIR] [--state-dir DIR]

Options, each with its variable and default:
  --listen HOST:PORT   where to listen (RECEIVERD_LISTEN; default
                       127.0.0.1:8080); a socket passed by systemd wins
${PLACE_HELP}

Settings from the environment:
  RECEIVERD_ORIGINS              web origins that may read answers, by commas
                                 (default: any)
${BOUNDS.map(([, bound]) => `  ${bound.env.padEnd(30)} ${bound.help}\n${' '.repeat(33)}(default ${bound.fallback}; ${bound.min} to ${bound.max})`).join('\n')}

The log goes to stderr, one line a record, with the priority for journald.
`

const KEY_HELP = `receiverd key: the API key of this device.

Usage: receiverd key show|rotate [--root DIR] [--state-dir DIR]

  show                 print the key that is in force
  rotate               make a new key, put it in force, and print it; a running
                       service takes it up at once and ends what the old key
                       and its tokens had open

Options:
${PLACE_HELP}
`

const TOKEN_HELP = `receiverd token: make a token from the API key, and print it alone.

Usage: receiverd token --role ROLE [--role ROLE]... [--expires-in TIME]
                       [--subject NAME]

Options:
  --role ROLE          what it grants: admin or moderator, with :r (read), :w
                       (change) or :rw
  --expires-in TIME    how long it holds, such as 90s, 15m, 8h or 30d; without
                       it, until the API key is replaced
  --subject NAME       whom it is for; shown in the log beside their changes
${PLACE_HELP}

Example: a token for a panel that watches and cannot change anything
  receiverd token --role admin:r --expires-in 30d --subject panel-4
`
