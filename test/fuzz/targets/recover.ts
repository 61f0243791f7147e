/**
 * The start of the service on a device whose files are anybody's: journals, originals, orders, the card, certificates, issuers
 * and keys with any content, and links in their way. It starts and answers, and changes nothing outside of the root.
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { errorCode, HalError } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import { System } from '../../../hal/os/system.ts'
import { finishReset } from '../../../src/system/factory-reset.ts'
import { copierOf, treeOf } from '../../hal/support/tree.ts'
import { FakeReceiver } from '../../support/fakes/receiver.ts'
import { IN_MEMORY } from '../../support/folder.ts'
import { TestIssuer } from '../../support/issuer.ts'
import { startTestService } from '../../support/service.ts'
import type { Input } from '../input.ts'
import { must, type Target } from '../target.ts'
import { Scope } from './scope.ts'

const STATE = '/var/lib/receiverd'
const CARD = '/boot/firmware'
const copy = copierOf(new URL('../../fixtures/receiver', import.meta.url).pathname)
const { publicKey } = new TestIssuer('fleet')

/** Files that a start reads, and perhaps writes. */
const FILES = [
  ...[
    'journal',
    'originals',
    'not-reset',
    'factory-reset',
    'kept-trial',
    'api-key',
    'api-key.former',
    'api-key.unused',
    'card',
    '.journal.receiverd-redo',
  ].map(name => `${STATE}/${name}`),
  ...['receiver.txt', 'issuers/fleet.json', 'certificate.pem', 'key.pem', 'receiver-errors.txt'].map(
    name => `${CARD}/${name}`,
  ),
  ...['issuers/ops.json', 'tls/certificate.pem', 'tls/key.pem', 'groups.conf', 'update.conf', 'moderation.conf'].map(
    name => `/etc/receiverd/${name}`,
  ),
  ...[
    '/etc/hostname',
    '/etc/hosts',
    '/etc/machine-info',
    '/etc/locale.conf',
    '/etc/uxplayrc',
    '/etc/localtime',
    '/etc/.hostname.receiverd-redo',
    '/etc/.hosts.receiverd-0123',
  ],
  ...[
    '/etc/systemd/network/10-receiverd-eth0.network',
    '/etc/systemd/timesyncd.conf.d/50-receiverd.conf',
    '/etc/wpa_supplicant/wpa_supplicant-wlan0.conf',
    '/etc/xdg/weston/weston.ini',
    '/etc/os-release',
    '/run/uxplay/startup',
  ],
]
const FOLDERS = [
  '/etc/receiverd',
  '/etc/receiverd/tls',
  '/etc/receiverd/issuers',
  '/etc/systemd/network',
  '/etc/systemd/timesyncd.conf.d',
  '/etc/wpa_supplicant',
  `${CARD}/issuers`,
  CARD,
  '/run/uxplay',
  '/run/receiverd',
]
const PLACES = [...FILES, ...FOLDERS]
const SETTINGS = [
  'hostname',
  'deviceName',
  'groups',
  'network',
  'wifi',
  'timezone',
  'locale',
  'ntp',
  'update',
  'certificate',
  'issuers',
  'nobody',
]
/** Of an image in a journal: places of settings, and places that no setting has. */
const PATHS = [
  ...FILES.filter(path => path.startsWith('/etc/')),
  '/etc/shadow',
  '/etc/../../outside/secret',
  '../outside/secret',
  '/../outside/secret',
  '/var/lib/receiverd/api-key',
  '/',
  '',
]
const KINDS = ['file', 'link', 'folder', 'absent'] as const

interface Place {
  /** With a root and its outside. */
  readonly folder: string
  readonly root: string
}

function entry(input: Input, content: Buffer[], outside: string): object {
  const kind = input.pick(KINDS)
  if (kind === 'link') return { kind, target: target(input, outside) }
  if (kind === 'absent') return { kind }
  const mode = input.pick([0o644, 0o600, 0o755, 0o777, 0o4755, -1])
  if (kind === 'folder') return { kind, mode }
  const bytes = input.chunk()
  content.push(bytes)
  return { kind, mode, size: input.below(16) === 0 ? input.byte() : bytes.length }
}

function target(input: Input, outside: string): string {
  return input.pick([
    `${outside}/secret`,
    `${outside}/folder`,
    `${outside}/missing`,
    '../'.repeat(9) + outside.slice(1),
    `${'../'.repeat(9)}${outside.slice(1)}/secret`,
    '../../../../../../../../outside/secret',
    '.',
    '..',
    '/etc/hosts',
    'loop',
    '/',
    '/var/lib/receiverd/api-key',
    '',
  ])
}

/** A journal, most often of the right shape. */
function journal(input: Input, outside: string): Buffer {
  const content: Buffer[] = []
  const undos = Array.from({ length: input.below(4) }, () => ({
    setting: input.pick(SETTINGS),
    previous: input.flag() ? 'lobby' : null,
    next: input.flag() ? 'x' : { a: [] },
    images: Array.from({ length: input.below(4) }, () => ({
      path: input.pick(PATHS),
      entry: entry(input, content, outside),
      ...(input.below(4) === 0 && { behind: entry(input, content, outside) }),
    })),
  }))
  const line = JSON.stringify({ version: input.below(16) === 0 ? 2 : 1, undos })
  return Buffer.concat([Buffer.from(`${line}\n`), ...content])
}

type Damage = (place: Place, input: Input) => void

/** Puts something else at a path. */
function replace(root: string, path: string, make: (at: string) => void): void {
  const at = join(root, path)
  try {
    rmSync(at, { recursive: true, force: true })
    mkdirSync(dirname(at), { recursive: true })
    make(at)
  } catch (error) {
    // Another damage has put a file or a loop above it.
    if (!/^E(NOTDIR|EXIST|LOOP|NOENT|ISDIR|ACCES)$/.test(errorCode(error) ?? '')) throw error
  }
}

const DAMAGES: readonly Damage[] = [
  ({ root, folder }, input) => {
    const name = input.pick(['journal', 'originals'])
    const bytes = journal(input, join(folder, 'outside'))
    const isWhole = input.below(4) > 0
    replace(root, `${STATE}/${name}`, at => writeFileSync(at, isWhole ? bytes : bytes.subarray(0, input.byte() * 4)))
  },
  ({ root }, input) => {
    const path = input.pick(FILES)
    const bytes = Buffer.from(
      input.chunk().toString('latin1').replaceAll('PUBLIC', publicKey.replaceAll('\n', '\\n')),
      'latin1',
    )
    replace(root, path, at => writeFileSync(at, bytes))
  },
  ({ root, folder }, input) => {
    const path = input.pick(PLACES)
    const to = target(input, join(folder, 'outside'))
    if (to !== '') replace(root, path, at => symlinkSync(to, at))
  },
  ({ root }, input) => replace(root, input.pick(PLACES), at => mkdirSync(at)),
  ({ root }, input) => replace(root, input.pick(PLACES), () => undefined),
  ({ root }, input) =>
    replace(root, `${STATE}/factory-reset`, at => writeFileSync(at, input.flag() ? 'forget-card\n' : '')),
]

/** As main.ts starts it. */
async function serve({ root }: Place, scope: Scope, options: ConstructorParameters<typeof System>[1]): Promise<void> {
  const system = new System(root, options)
  await finishReset(new Files(join(root, STATE)), system, () => undefined).catch(error => {
    if (!(error instanceof HalError) && errorCode(error) === undefined) throw error
  })
  const service = await startTestService(scope.test, { root, ...options, env: { RECEIVERD_CARD: CARD } })
  const answer = await fetch(`${service.url}/api/v1/health`)
  must(answer.status === 200, 'it does not answer', () => answer.status)
  await answer.arrayBuffer()
}

async function run(input: Input): Promise<void> {
  const folder = mkdtempSync(join(IN_MEMORY, 'receiverd-fuzz-'))
  const place = { folder, root: join(folder, 'root') }
  const scope = new Scope()
  try {
    mkdirSync(join(folder, 'outside/folder/issuers'), { recursive: true })
    for (const name of [
      'secret',
      'folder/secret',
      'folder/hostname',
      'folder/api-key',
      'folder/receiver.txt',
      'folder/certificate.pem',
      'folder/key.pem',
      'folder/10-receiverd-eth0.network',
      'folder/50-receiverd.conf',
      'folder/.hostname.receiverd-redo',
      'folder/issuers/fleet.json',
    ])
      writeFileSync(join(folder, 'outside', name), 'hostname=outside\n')
    mkdirSync(place.root)
    copy(place.root)
    for (const path of [STATE, CARD, '/proc/sys/kernel', '/etc/systemd/system'])
      mkdirSync(join(place.root, path), { recursive: true })
    const isRunning = input.flag()
    // The programs of the device are as they were.
    const { options } = new FakeReceiver(place.root)
    for (let left = 1 + input.below(5); left > 0; left--) input.pick(DAMAGES)(place, input)
    const before = treeOf(join(folder, 'outside'))
    await serve(place, scope, isRunning ? options : {})
    await scope.end()
    const after = treeOf(join(folder, 'outside'))
    must(JSON.stringify(after) === JSON.stringify(before), 'something outside was changed', () => ({ before, after }))
  } finally {
    await scope.end()
    rmSync(folder, { recursive: true, force: true })
  }
}

const at = (path: string) => String.fromCharCode(PLACES.indexOf(path))

export const recover: Target = {
  name: 'recover',
  maxLength: 1_024,
  executions: 16,
  seeds: [
    '\0\0\0\0\x01\x00\x01\x01\x01\x0e\0\0lobby\n\xff\x01\x01\x04',
    '\x01\0\0\x01\x02\x03\x01\x01\x02\x0e\x01\0\x04\x0f\x02\x01\x04',
    `\x01\0\x01${at(`${CARD}/receiver.txt`)}hostname=lobby\nname=Lobby\nwifi-ssid=Guests\nwifi-password=correct horse\naddress=192.0.2.10/24\napi-key=a-key-that-its-owner-knows.0123456789\n`,
    `\x01\0\x01${at(`${CARD}/issuers/fleet.json`)}{"publicKey":"PUBLIC","roles":["admin:r"]}`,
    `\x01\x01\x05\x01\0\x01\x01\x01\x0e\0\0lobby\n\xff`,
    `\0\0\x02${at('/etc/hostname')}\0`,
    `\0\0\x02${at('/etc/receiverd')}\x01`,
    `\0\0\x02${at(`${STATE}/journal`)}\0`,
    `\x01\0\x03${at(`${STATE}/api-key`)}`,
    `\0\0\x01${at('/etc/.hostname.receiverd-redo')}x\n`,
  ].map(seed => Buffer.from(seed, 'latin1')),
  words: [
    'hostname=',
    'name=',
    'api-key=',
    'wifi-ssid=',
    'wifi-password=',
    'wifi-country=',
    'address=dhcp',
    'gateway=',
    'dns=',
    '{"publicKey":"PUBLIC","roles":["admin:rw"]}',
    '{"version":1,"undos":[]}\n',
    '-----BEGIN CERTIFICATE-----',
    '-----BEGIN PRIVATE KEY-----',
    '-----END CERTIFICATE-----',
    '\n',
    '\0',
    '\xff',
    '"',
    '{}',
    '[]',
    'A'.repeat(43),
  ],
  run,
}
