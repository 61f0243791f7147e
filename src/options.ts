import { LIMITS } from './limits.ts'

/** An option of `receiverd serve`. The help text, receiverd(8), receiverd.options and a README are generated from these. */
export interface Option {
  /** The flag and its argument, if the option has a flag. Flags take precedence over the environment. */
  readonly flag?: readonly [name: string, argument: string]
  readonly env: string
  /** The default value, or words that stand for no value. */
  readonly fallback: string | number
  /** The range of a number. */
  readonly min?: number
  readonly max?: number
  /** An example value, if `fallback` is not one. */
  readonly example?: string
  /** A phrase without a capital letter or a final period, with code between backticks. */
  readonly help: string
}

export const OPTIONS = {
  listen: {
    flag: ['listen', 'ADDRESS:PORT'],
    env: 'RECEIVERD_LISTEN',
    fallback: '127.0.0.1:8080',
    help: 'where to listen; a socket from systemd takes precedence',
  },
  engines: {
    flag: ['engines', 'PATH'],
    env: 'RECEIVERD_ENGINES',
    fallback: 'none',
    help: 'a Unix socket for programs that mirror; a socket from systemd takes precedence',
  },
  root: {
    flag: ['root', 'DIR'],
    env: 'RECEIVERD_ROOT',
    fallback: '/',
    help: 'work on the system installed in DIR, and change only its files',
  },
  stateDir: {
    flag: ['state-dir', 'DIR'],
    env: 'STATE_DIRECTORY',
    fallback: '`/var/lib/receiverd` under the root',
    help: 'state directory: the API key, the journal of a change in progress, and the originals of changed files',
  },
  origins: {
    env: 'RECEIVERD_ORIGINS',
    fallback: 'any',
    example: 'https://panel.example',
    help: 'web origins that may read responses, separated by commas',
  },
  page: { env: 'RECEIVERD_PAGE', fallback: 'on', help: 'whether to serve the Device Management page: `on` or `off`' },
  announce: {
    env: 'RECEIVERD_ANNOUNCE',
    fallback: 'on',
    help: 'whether to announce the device on the network, where avahi runs: `on` or `off`',
  },
  screenKey: {
    env: 'RECEIVERD_SCREEN_KEY',
    fallback: 'off',
    help: 'whether the QR code on the screen signs in until a generated API key is first used: `on` or `off`',
  },
  card: {
    env: 'RECEIVERD_CARD',
    fallback: 'none',
    example: '/boot/firmware',
    help: 'the folder of a boot partition, whose `receiver.txt` is taken when the service starts, as on the image',
  },
  update: {
    env: 'RECEIVERD_UPDATE',
    fallback: 'none',
    example: '/data/update',
    help: 'the folder for bundles of firmware updates, where RAUC installs them, as on the image',
  },
  reset: {
    env: 'RECEIVERD_RESET',
    fallback: 'none',
    example: '/data/orders/factory-reset',
    help: 'a file that orders a factory reset from the next boot, on an image whose `/etc` and `/var` are overlays',
  },
  tlsPort: {
    env: 'RECEIVERD_TLS_PORT',
    fallback: 'none',
    example: '443',
    help: 'the port of a TLS server in front, whose certificate in `/etc/receiverd/tls` is then made and renewed',
  },
} as const satisfies Record<string, Option>

/** All options, in the order of the lists. */
export const ALL_OPTIONS: readonly Option[] = [...Object.values(OPTIONS), ...LIMITS.map(([, limit]) => limit)]
