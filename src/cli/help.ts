import { ALL_OPTIONS, OPTIONS, type Option } from '../options.ts'

/** Returns the help text of a command; that of the program for anything else. */
export function helpFor(command: string | undefined): string {
  if (command === 'serve') return SERVE_HELP
  if (command === 'key') return KEY_HELP
  if (command === 'config') return CONFIG_HELP
  if (command === 'update') return UPDATE_HELP
  if (command === 'token') return TOKEN_HELP
  if (command === 'session') return SESSION_HELP
  if (command === 'discover') return DISCOVER_HELP
  return HELP
}

/** Columns of a terminal, and where descriptions begin next to flags and next to variables. */
const WIDTH = 80
const BESIDE_FLAG = 23
const BESIDE_VARIABLE = 33

const PLACE_HELP = [OPTIONS.root, OPTIONS.stateDir].map(describeFlag).join('\n')

const HELP = `receiverd serves the management API of a screen-mirroring receiver.

Usage:
  receiverd serve              run the service
  receiverd key show           print the API key
  receiverd key rotate         replace the API key, which revokes every token
                               made from the old one
  receiverd config save        print the settings
  receiverd config load FILE   load settings, after asking
  receiverd update status      say which versions are on the device
  receiverd update install FILE
                               send a bundle, and install it, after asking
  receiverd update discard     discard the new version, after asking
  receiverd update rollback    restart into the version before, after asking
  receiverd token --role ROLE  print a token (JWT) with limited rights
  receiverd session … -- CMD   run a command as a mirroring session, once a
                               moderator lets it in
  receiverd discover           list the receivers on the network
  receiverd --version          print the version
  receiverd COMMAND --help     list the options of a command, as does
                               receiverd help COMMAND

Exit status: 0 success, 1 failure, 2 usage error; session: see its help.
`

const SERVE_HELP = `receiverd serve: run the service until SIGTERM or SIGINT.

Usage: receiverd serve [--listen ADDRESS:PORT] [--engines PATH] [--root DIR]
                       [--state-dir DIR]

Options (with the environment variable and the default):
${ALL_OPTIONS.filter(({ flag }) => flag)
  .map(describeFlag)
  .join('\n')}

Options that are environment variables only:
${ALL_OPTIONS.filter(({ flag }) => !flag)
  .map(describeVariable)
  .join('\n')}

The log is written to stderr, one line per record, each with the priority prefix
that journald reads.
`

const KEY_HELP = `receiverd key: show or replace the API key of this device.

Usage: receiverd key show [--verbose] [--root DIR] [--state-dir DIR]
       receiverd key rotate [--key-file FILE] [--remove-issuers] [--root DIR]
                            [--state-dir DIR]

Commands:
  show                 print the current key; with --verbose also the pin and
                       the fingerprint of the TLS certificate, and a curl
                       command that uses the key and the pin
  rotate               generate a new key and print it, or use the key in FILE;
                       a running service uses it at once, and disconnects every
                       client that uses the old key or a token made from it;
                       names the issuers that stay, whose tokens stay valid, on
                       standard error

The first key is generated when the service first starts, or taken from systemd:
the credential receiverd.api-key, of 22 to 128 characters of A-Z, a-z, 0-9 and
._~- (systemd.exec(5), LoadCredential=).

Options of key rotate:
  --key-file FILE      the new key, on a line of its own: as above, with at
                       least 12 different characters, and none that this device
                       had before; - is standard input
  --remove-issuers     remove the issuers that were added with the API key:
                       somebody who had the old key may have left one behind

Options (with the environment variable and the default):
${PLACE_HELP}
`

const CONFIG_HELP = `receiverd config: save or load the settings of this device.

Usage: receiverd config save [--with-identity] [FILE]
       receiverd config load [--yes [--partial]] FILE

FILE has no passwords. Before it is loaded, you are asked; a change that could
cut you off is undone after a minute, unless you then keep it.

Options (with the environment variable and the default):
  --with-identity      also save names and addresses
  --yes, -y            load and keep them without asking
  --partial            load what this device can take of them
  --listen ADDRESS:PORT
                       the service (RECEIVERD_LISTEN; default: the running one)
${PLACE_HELP}
`

const UPDATE_HELP = `receiverd update: update the firmware of this device, or go back.

Usage: receiverd update status
       receiverd update install [--yes] [--restart WHEN] [--allow-older] FILE
       receiverd update discard [--yes]
       receiverd update rollback [--yes]

FILE is a bundle, such as receiver-1.1.0.raucb. If the command is interrupted,
give it again: it sends what is missing. The device installs it beside the
version that runs, which is untouched, and goes back by itself if the new one
does not prove good. You are asked before it is installed, and before a restart.
Until it starts, the new version can be discarded. A version that you go back to
must prove good as well.

Options (with the environment variable and the default):
  --yes, -y            do not ask
  --restart WHEN       when the device restarts: now, window (of the setting
                       update, and when nobody mirrors) or manual (default: you
                       are asked; with --yes window if one is set, else manual)
  --allow-older        install a version that is older than the one that runs
  --listen ADDRESS:PORT
                       the service (RECEIVERD_LISTEN; default: the running one)
${PLACE_HELP}
`

const TOKEN_HELP = `receiverd token: make a token from the API key and print it, as does
POST /api/v1/tokens.

Usage: receiverd token --role ROLE [--role ROLE]... [--expires-in TIME]
                       [--subject NAME] [--root DIR] [--state-dir DIR]

Options (with the environment variable and the default):
  --role ROLE          rights of the token: admin or moderator, followed by
                       :r (read), :w (write) or :rw (both)
  --expires-in TIME    how long the token is valid, such as 90s, 15m, 8h or 30d
                       (default: until the API key is replaced)
  --subject NAME       name of the token's holder, 1 to 64 characters; the log
                       gives it with each change
${PLACE_HELP}

Example: a token for a panel that may read the configuration but not change it
  receiverd token --role admin:r --expires-in 30d --subject panel-4
`

const DISCOVER_HELP = `receiverd discover: list the receivers on the network.

Usage: receiverd discover [--json]

Asks avahi for devices that announce themselves as _receiverd._tcp (DNS-SD). The
details are the devices' own claims.

Options:
  --json               print an array of objects: name, hostname, addresses,
                       port, model, serial, pin (of the certificate, for
                       curl --pinnedpubkey sha256//PIN), url
`

const SESSION_HELP = `receiverd session: run a command as a mirroring session.

Usage: receiverd session --protocol NAME --name NAME [--model NAME]
                         [--device-id ID] [--address IP] [--engines PATH]
                         -- COMMAND [ARGUMENT]...

Asks to be let in, and runs the command once it is. When a moderator ends the
session, the command gets SIGTERM, and SIGKILL 5 s later. So does all that it has
started, unless its input is a terminal. While the service restarts, the command
goes on.

Options (with the environment variable and the default):
  --protocol NAME      how the device mirrors, such as miracast
  --name NAME          the device's name, as the moderator sees it
  --model NAME         its model
  --device-id ID       the ID by which it identifies itself
  --address IP         its address
  --engines PATH       the socket of the service (RECEIVERD_ENGINES; default
                       /run/receiverd/engines.sock)

Exit status: the command's; 75 if the session was denied, 1 if the service could
not be reached.
`

function describeFlag({ flag = ['', ''], env, fallback, help }: Option): string {
  return described(`--${flag.join(' ')}`, BESIDE_FLAG, `${help} (${env}; default ${fallback})`)
}

function describeVariable({ env, fallback, min, max, help }: Option): string {
  const range = min === undefined ? '' : `; ${min} to ${max}`
  return described(env, BESIDE_VARIABLE, `${help} (default ${fallback}${range})`)
}

/** Wraps text next to the name, or from the next line on if the name is too long. */
function described(name: string, indent: number, text: string): string {
  const lines = [`  ${name}`.padEnd(indent)]
  if (name.length + 3 > indent) lines.push(' '.repeat(indent))
  for (const word of text.replaceAll('`', '').split(' ')) {
    const line = lines.at(-1) ?? ''
    const isFull = line.length + word.length + 1 > WIDTH && line.length > indent
    if (isFull) lines.push(' '.repeat(indent) + word)
    else lines[lines.length - 1] = line.endsWith(' ') ? line + word : `${line} ${word}`
  }
  return lines.map(line => line.trimEnd()).join('\n')
}
