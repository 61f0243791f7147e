/** The certificate of the device as its configuration changes. */
import { execFileSync } from 'node:child_process'
import { randomUUID, X509Certificate } from 'node:crypto'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { HalError } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import type { FileSystem } from '../../hal/files/kernel.ts'
import { CertificateFiles } from '../../hal/os/certificate.ts'
import type { Run } from '../../hal/os/command.ts'
import { System, type SystemOptions } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { Originals } from '../../hal/transaction/originals.ts'
import { Transactions } from '../../hal/transaction/transaction.ts'
import { readConfig } from '../../src/config.ts'
import { CERTIFICATE_SETTLE_MS } from '../../src/limits.ts'
import { Tls } from '../../src/presence/tls.ts'
import { finishReset, orderReset } from '../../src/system/factory-reset.ts'
import { SystemStore } from '../../src/system/store.ts'
import { intercepted, systemError } from '../hal/support/file-system.ts'
import { newAuthority } from '../support/authority.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { startTestService } from '../support/service.ts'

const RELOAD = 'systemctl reload-or-restart nginx.service'
const STATE = 'systemctl show --property=ActiveState,InvocationID,Job nginx.service'
const DAY_MS = 86_400_000
/** openssl has no other clock than this one. */
const NOW = Date.now() + 60_000
const ENV = { RECEIVERD_TLS_PORT: '443' }

interface Options {
  readonly root?: string
  readonly now?: number
  readonly builtAt?: number
  readonly prepare?: (root: string) => void
  readonly fs?: FileSystem
}

/** A device with a server in front that does as it is told. */
async function start(t: Test, { root = deviceRoot(t), now = NOW, builtAt = 0, prepare, fs }: Options = {}) {
  prepare?.(root)
  const clock = { ms: now, now: () => clock.ms }
  const device = new FakeReceiver(root)
  const server = {
    reloads: 0,
    state: 'ActiveState=active\nJob=\n',
    looks: 0,
    refuses: false,
    onReload: (): void => undefined,
  }
  const run: Run = async (argv, env) => {
    if (argv.join(' ') === STATE) {
      server.looks++
      return server.state
    }
    if (argv.join(' ') !== RELOAD) return device.options.run?.(argv, env) ?? ''
    server.onReload()
    if (server.refuses) throw new HalError('COMMAND_FAILED', 'systemctl ended with status 1')
    server.reloads++
    return ''
  }
  let looks = 0
  const counting = intercepted(
    ({ proceed }) => proceed(),
    path => {
      if (path.endsWith('/certificate.pem')) looks++
    },
  )
  const options: SystemOptions = { ...device.options, run, fs: fs ?? counting }
  const service = await startTestService(t, { root, env: ENV, clock, builtAt, ...options })
  const path = (name: string) => join(root, 'etc/receiverd/tls', `${name}.pem`)
  const read = () => new X509Certificate(readFileSync(path('certificate')))
  return { service, root, options, clock, path, read, server, reloads: () => server.reloads, looks: () => looks }
}

type Device = Awaited<ReturnType<typeof start>>

const untilReloaded = ({ reloads }: Device, times: number) => eventually(() => reloads() === times)
const pinnedIn = ({ service }: Device) =>
  service.log.flatMap(line => /sha256\/\/(\S+)/.exec(line)?.[1] ?? []).at(-1) ?? ''

function putOwners(device: Device, key: readonly string[] = ['rsa:2048'], days = 90): void {
  const folder = join(device.root, 'owner')
  mkdirSync(folder)
  const out = ['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'certificate.pem')]
  const options = ['-newkey', ...key, '-nodes', '-subj', '/O=Example/CN=room-4.example', '-days', `${days}`]
  execFileSync('openssl', ['req', '-x509', ...options, ...out], { stdio: 'pipe' })
  for (const name of ['key', 'certificate']) renameSync(join(folder, `${name}.pem`), device.path(name))
}

/** A device that has had an owner's pair since before its first start. */
function startWithOwners(t: Test, key?: readonly string[], fs?: FileSystem) {
  return start(t, {
    ...(fs && { fs }),
    prepare: root => {
      mkdirSync(join(root, 'etc/receiverd/tls'), { recursive: true })
      const path = (name: string) => join(root, 'etc/receiverd/tls', `${name}.pem`)
      putOwners({ root, path } as Device, key)
    },
  })
}

t.test('the first start makes one, for the names and addresses of the device', async t => {
  const device = await start(t)
  const { value } = await device.service.system()
  await untilReloaded(device, 1)
  const { subjectAltName = '', validFrom, validTo } = device.read()
  t.match(subjectAltName, `DNS:${value.hostname}, DNS:${value.hostname}.local`)
  t.match(subjectAltName, 'IP Address:192.0.2.')
  t.notMatch(subjectAltName, /FE80|169\.254|127\./)
  t.ok(Date.parse(validFrom) < NOW - 30 * DAY_MS, 'a client with a slow clock accepts it')
  t.ok(Date.parse(validTo) - Date.parse(validFrom) < 825 * DAY_MS, 'and so do those of Apple')
  t.match(
    device.service.log.at(-1),
    /^notice: TLS: a certificate made by this device is in force; .* sha256\/\/[\w+/]{43}=$/,
  )
})

t.test('without the option, and on another root, nothing is made', async t => {
  const root = deviceRoot(t)
  const device = new FakeReceiver(root)
  await startTestService(t, { root, ...device.options })
  const other = await startTestService(t, { env: ENV })
  await sleep(50)
  for (const at of [root, other.root]) t.notOk(existsSync(join(at, 'etc/receiverd/tls')))
})

t.test('another start keeps it, and has it used', async t => {
  const first = await start(t)
  await untilReloaded(first, 1)
  const { fingerprint256 } = first.read()
  await first.service.close()
  const second = await start(t, { root: first.root })
  await untilReloaded(second, 1)
  t.equal(second.read().fingerprint256, fingerprint256)
})

t.test('a new name is in a new certificate with the same pin', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const pin = pinnedIn(device)
  await device.service.patch({ hostname: 'room-5.example' })
  await untilReloaded(device, 2)
  t.match(device.read().subjectAltName, /^DNS:room-5\.example, DNS:room-5\.local, IP/)
  t.equal(pinnedIn(device), pin)
  await device.service.patch({ deviceName: 'Room 5' })
  await sleep(50)
  t.equal(device.reloads(), 2, 'not for what is not in it')
})

t.test(
  'a name on trial is in a new certificate once it is kept: until then, a browser accepts only the old one',
  async t => {
    const device = await start(t)
    const { service, path } = device
    await untilReloaded(device, 1)
    const { fingerprint256 } = device.read()
    const cancelled = await service.patch({ hostname: 'not-kept' }, {}, '?confirmWithin=60')
    t.equal(cancelled.status, 200)
    // The device looks at a file that has changed.
    const key = readFileSync(path('key'))
    const looks = async () => {
      const before = device.looks()
      writeFileSync(path('key'), key)
      await eventually(() => device.looks() > before)
    }
    await looks()
    t.equal(device.read().fingerprint256, fingerprint256)
    await service.fetch('/system/confirm', { method: 'DELETE' })
    await looks()
    t.equal(device.read().fingerprint256, fingerprint256, 'nor after it was undone')
    await service.patch({ hostname: 'room-5.example' }, {}, '?confirmWithin=60')
    await looks()
    t.equal(device.read().fingerprint256, fingerprint256)
    t.equal(device.reloads(), 1)
    await service.fetch('/system/confirm', { method: 'POST' })
    await untilReloaded(device, 2)
    t.match(device.read().subjectAltName, /^DNS:room-5\.example, DNS:room-5\.local, IP/)
  },
)

t.test('where storage refuses a new certificate, the one in place goes on', async t => {
  const root = deviceRoot(t)
  const first = await start(t, { root })
  await untilReloaded(first, 1)
  const { fingerprint256 } = first.read()
  await first.service.close()
  writeFileSync(join(root, 'etc/hostname'), 'room-5\n')
  const fs = intercepted(({ name, path, proceed }) => {
    if (name === 'open' && path.includes('.certificate.pem.')) throw systemError('EROFS')
    return proceed()
  })
  const device = await start(t, { root, fs })
  await untilReloaded(device, 1)
  t.equal(device.read().fingerprint256, fingerprint256)
  const { certificate } = (await (await device.service.fetch('/status')).json()) as { certificate?: object }
  t.ok(certificate, 'the screen and the announcement go by it, too')
  await eventually(() => device.service.log.some(line => /^warning: TLS: .*\(EROFS\)/.test(line)))
})

t.test('where the state directory refuses writes, the first one is made all the same', async t => {
  const root = deviceRoot(t)
  const device = new FakeReceiver(root)
  const log: string[] = []
  let isBroken = true
  const fs = intercepted(call => {
    if (isBroken && call.changes) throw systemError('EROFS')
    return call.proceed()
  })
  const system = new System(root, { ...device.options, run: async () => '' })
  const state = join(root, 'var/lib/receiverd')
  const settings = registry(system)
  const originals = new Originals(new Files(state, fs))
  const transactions = new Transactions(system, settings, new Journal(new Files(state, fs)), originals)
  const ring = { maxEvents: 10, maxBytes: 100_000, newId: randomUUID }
  const write = (level: string, line: string) => log.push(`${level}: ${line}`)
  const configuration = new SystemStore({
    system,
    state: new Files(state, fs),
    settings,
    transactions,
    ring,
    log: write,
  })
  await configuration.start()
  const clock = { now: () => NOW }
  const tls = new Tls({ files: new CertificateFiles(system), configuration, originals, clock, builtAt: 0, log: write })
  tls.start()
  await eventually(() => tls.certificate !== undefined)
  const refused = /^warning: TLS: a factory reset would not remove the certificate: read-only file system/
  t.ok(log.some(line => refused.test(line)))
  isBroken = false
  // A reason to look at the names.
  await configuration.patch({ hostname: 'room-7' }, () => undefined)
  await eventually(() => existsSync(join(state, 'originals')) && tls.certificate?.covers('room-7'))
  await tls.stop()
  await configuration.stop()
  await orderReset(new Files(state), false)
  t.ok(await finishReset(new Files(state), system, () => undefined))
  for (const name of ['key', 'certificate']) t.notOk(existsSync(join(root, 'etc/receiverd/tls', `${name}.pem`)), name)
})

t.test('names that change again and again are not followed for ever', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  for (let n = 2; n < 28; n++) {
    await device.service.patch({ hostname: `room-${n}` })
    if (n <= 24) await untilReloaded(device, n)
  }
  await sleep(50)
  t.equal(device.reloads(), 24)
  t.match(device.read().subjectAltName, 'DNS:room-24,')
  t.same(
    device.service.log.filter(line => line.startsWith('warning: TLS')),
    [],
  )
})

t.test('renewed before it expires, and when the clock proves it wrong; not without a clock', async t => {
  const cases: [what: string, now: number, builtAt: number, isRenewed: boolean][] = [
    ['a year later', NOW + 365 * DAY_MS, 0, false],
    ['two years later', NOW + 730 * DAY_MS, 0, true],
    ['ten years later', NOW + 3650 * DAY_MS, 0, true],
    ['half a year earlier: it was made by a wrong clock', NOW - 180 * DAY_MS, 0, true],
    ['in 1970', 0, NOW, false],
    ['in 1970, by a program that was built when it had expired', 0, NOW + 3650 * DAY_MS, true],
  ]
  const first = await start(t)
  await untilReloaded(first, 1)
  const pin = pinnedIn(first)
  await first.service.close()
  const pair = ['certificate', 'key'].map(name => [name, readFileSync(first.path(name))] as const)
  for (const [what, now, builtAt, isRenewed] of cases) {
    const { fingerprint256 } = first.read()
    const device = await start(t, { root: first.root, now, builtAt })
    await untilReloaded(device, 1)
    t.equal(device.read().fingerprint256 !== fingerprint256, isRenewed, what)
    t.ok(Date.parse(device.read().validTo) > Math.max(now, builtAt), what)
    t.equal(pinnedIn(device), pin)
    await device.service.close()
    for (const [name, bytes] of pair) writeFileSync(first.path(name), bytes)
  }
})

t.test(
  'made without a clock, it is valid when the program was built, and a renewal changes nothing of that',
  async t => {
    const device = await start(t, { now: 0, builtAt: NOW })
    await untilReloaded(device, 1)
    const { validFrom, validTo } = device.read()
    t.ok(Date.parse(validFrom) < NOW && NOW < Date.parse(validTo))
    await device.service.patch({ hostname: 'room-5' })
    await untilReloaded(device, 2)
    t.match(device.read(), { validFrom, validTo })
  },
)

t.test("an owner's pair is used, and never touched", async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const pin = pinnedIn(device)
  putOwners(device)
  await untilReloaded(device, 2)
  t.not(pinnedIn(device), pin)
  t.match(device.service.log.at(-1), 'TLS: a certificate of the owner of this device is in force')
  const { fingerprint256 } = device.read()
  await device.service.patch({ hostname: 'room-5' })
  await sleep(50)
  t.equal(device.read().fingerprint256, fingerprint256)
  t.equal(device.reloads(), 2)
})

t.test('a pair in place whose key browsers refuse stays in force, and the log says so', async t => {
  for (const key of [['ed25519'], ['ec', '-pkeyopt', 'ec_paramgen_curve:P-521']]) {
    const device = await startWithOwners(t, key)
    // Old enough to be set aside, while something else keeps the server from running.
    device.server.state = 'ActiveState=failed\nJob=\n'
    const before = new Date(NOW - 120_000)
    for (const name of ['certificate', 'key']) utimesSync(device.path(name), before, before)
    const pair = ['certificate', 'key'].map(name => readFileSync(device.path(name), 'latin1'))
    await untilReloaded(device, 1)
    await eventually(
      () =>
        device.service.log.at(-1) ===
        'warning: TLS: the certificate of the owner of this device has a key of a kind that browsers refuse: use P-256, P-384 or RSA',
    )
    t.match(await statusOf(device), { madeBy: 'owner' })
    const answer = await device.service.fetch('/certificate/request', { method: 'POST' })
    t.match(await problemOf(answer), {
      status: 500,
      detail: /^No request was made: browsers refuse a key of this kind/,
    })
    t.same(
      ['certificate', 'key'].map(name => readFileSync(device.path(name), 'latin1')),
      pair,
    )
    t.equal((await remove(device)).status, 204)
    t.match(await statusOf(device), { madeBy: 'device' }, 'the way out')
  }
})

t.test("an owner's certificate that expires is logged in time", async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const touch = () => utimesSync(device.path('certificate'), new Date(), new Date())
  const until = (text: string) => eventually(() => device.service.log.at(-1)?.includes(text))
  putOwners(device, ['rsa:2048'], 30)
  await untilReloaded(device, 2)
  const day = new Date(device.read().validTo).toISOString().slice(0, 10)
  device.clock.ms += 20 * DAY_MS
  touch()
  await until(`the certificate of the owner of this device expires on ${day}; clients refuse it from then on`)
  const lines = device.service.log.length
  touch()
  await sleep(CERTIFICATE_SETTLE_MS + 200)
  t.equal(device.service.log.length, lines, 'once')
  device.clock.ms += 20 * DAY_MS
  touch()
  await until(`expired on ${day}; clients refuse it`)
  device.clock.ms = NOW - 2 * DAY_MS
  touch()
  await until('is not valid before ')
})

t.test('a pair that does not match is logged once, and the server is left alone', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const key = readFileSync(device.path('key'))
  putOwners(device)
  writeFileSync(device.path('key'), key)
  const complaints = () => device.service.log.filter(line => line.startsWith('warning: TLS'))
  await eventually(() => complaints().length > 0)
  writeFileSync(device.path('key'), key)
  await sleep(CERTIFICATE_SETTLE_MS + 200)
  t.same(complaints(), [
    'warning: TLS: the key does not belong to the first certificate of its file; the server in front is left as it is',
  ])
  t.equal(device.reloads(), 1)
  for (const name of ['key', 'certificate']) rmSync(device.path(name))
  await untilReloaded(device, 2)
  t.match(device.read().subject, 'O=receiverd')
})

t.test('a pair that the server refuses is not in force', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const pin = pinnedIn(device)
  device.server.refuses = true
  putOwners(device)
  await eventually(() => device.service.log.at(-1)?.startsWith('warning: TLS: systemctl'))
  t.equal(pinnedIn(device), pin)
})

t.test('a pair that keeps the server from starting is set aside, unless it is something else that does', async t => {
  const before = new Date(NOW - 120_000)
  for (const isCause of [true, false]) {
    const device = await start(t)
    await untilReloaded(device, 1)
    const own = readFileSync(device.path('certificate'), 'latin1')
    const isInPlace = () => readFileSync(device.path('certificate'), 'latin1') !== own
    device.server.refuses = true
    putOwners(device)
    const certificate = device.path('certificate')
    const owners = readFileSync(certificate, 'latin1')
    await eventually(() => device.service.log.at(-1)?.startsWith('warning: TLS: systemctl'))
    t.ok(isInPlace(), 'the server runs with what it has read before')

    device.server.state = 'ActiveState=failed\nJob=\n'
    let attempts = 0
    device.server.onReload = () => {
      attempts++
      device.server.refuses = !isCause || readFileSync(device.path('certificate'), 'latin1') === owners
    }
    const touch = () => {
      for (const name of ['certificate', 'key']) utimesSync(device.path(name), before, before)
    }
    touch()
    await eventually(() => device.service.log.some(line => line.includes('does not start with it: set aside as *.bad')))
    if (isCause) await untilReloaded(device, 2)
    // In between, there is none.
    else await eventually(() => existsSync(certificate) && readFileSync(certificate, 'latin1') === owners)
    t.equal(existsSync(`${device.path('certificate')}.bad`), isCause)
    if (isCause) continue
    const asideOnce = attempts
    touch()
    await eventually(() => attempts > asideOnce)
    await device.service.close()
    const aside = device.service.log.filter(line => line.includes('set aside as *.bad'))
    t.equal(aside.length, 1, 'not again at each look')
    t.equal(readFileSync(certificate, 'latin1'), owners)
  }
})

t.test('a pair stays while the server has not started for another reason, such as a network that is late', async t => {
  const cases: [state: string, isDamaged: boolean][] = [
    ['ActiveState=inactive\nJob=7\n', false],
    ['ActiveState=activating\nJob=7\n', false],
    // Somebody has stopped or masked it.
    ['ActiveState=inactive\nJob=\n', false],
    ['ActiveState=inactive\nJob=7\n', true],
  ]
  const old = new Date(NOW - 120_000)
  for (const [state, isDamaged] of cases) {
    const device = await start(t)
    await untilReloaded(device, 1)
    device.server.refuses = true
    device.server.state = state
    putOwners(device)
    if (isDamaged) writeFileSync(device.path('key'), '')
    // They are looked at one after the other, so the second look ends the first.
    for (const looks of [1, 2]) {
      for (const name of ['certificate', 'key']) utimesSync(device.path(name), old, old)
      await eventually(() => device.server.looks >= looks)
    }
    t.match(device.read().subject, 'room-4.example', state)
    t.same(
      device.service.log.filter(line => line.startsWith('warning: TLS')),
      [
        isDamaged
          ? 'warning: TLS: the key is not valid PEM, or has a passphrase; the server in front is left as it is'
          : 'warning: TLS: systemctl ended with status 1; the server in front is left as it is',
      ],
    )
  }
})

t.test('a chain that comes later is used', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  putOwners(device)
  await untilReloaded(device, 2)
  appendFileSync(device.path('certificate'), readFileSync(device.path('certificate')))
  await untilReloaded(device, 3)
  appendFileSync(device.path('certificate'), '-----BEGIN CERTIFICATE-----\nAAAA\n')
  await eventually(() => device.service.log.at(-1)?.includes('one of its chain, is not valid PEM'))
  t.equal(device.reloads(), 3)
})

t.test('a key that is too short for the server is refused', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  putOwners(device, ['rsa:1024'])
  await eventually(() => device.service.log.at(-1)?.includes('cannot be used for TLS: ee key too small'))
  t.equal(device.reloads(), 1)
})

t.test('a damaged pair that keeps the server from running is set aside, and only then', async t => {
  const age = (device: Device) => {
    const before = new Date(NOW - 120_000)
    for (const name of ['certificate', 'key'])
      if (existsSync(device.path(name))) utimesSync(device.path(name), before, before)
  }
  for (const damaged of ['certificate', 'key']) {
    const device = await start(t)
    await untilReloaded(device, 1)
    const pin = pinnedIn(device)
    const warnings = () => device.service.log.filter(line => line.startsWith('warning: TLS'))
    writeFileSync(device.path(damaged), '')
    age(device)
    await eventually(() => warnings().length === 1)
    t.equal(readFileSync(device.path(damaged), 'latin1'), '', 'the server runs with what it has read before')

    device.server.state = 'ActiveState=activating\nJob=\n'
    utimesSync(device.path(damaged), new Date(NOW), new Date(NOW))
    await sleep(CERTIFICATE_SETTLE_MS + 200)
    t.equal(readFileSync(device.path(damaged), 'latin1'), '', 'somebody may be replacing it')

    age(device)
    await untilReloaded(device, 2)
    t.match(warnings().at(-1), 'so the server in front does not run: set aside as *.bad, and made again')
    t.ok(existsSync(`${device.path(damaged)}.bad`))
    t.equal(pinnedIn(device) === pin, damaged === 'certificate', 'a good key stays')
  }
})

t.test('an address that comes and goes is a reason to renew it only once', async t => {
  const root = deviceRoot(t)
  const device = new FakeReceiver(root)
  const system = new System(root, device.options)
  const files = new CertificateFiles(system)
  const names = ['room', '192.0.2.7', '2001:db8::7']
  await files.make({ commonName: 'room', names, from: NOW, to: NOW + DAY_MS })
  t.same((await files.read())?.addresses, ['192.0.2.7', '2001:DB8:0:0:0:0:0:7'])
  const other = await start(t, { root })
  await untilReloaded(other, 1)
  const { subjectAltName = '' } = other.read()
  t.match(subjectAltName, /DNS:.*192\.0\.2\.\d+.*IP Address:192\.0\.2\.7, IP Address:2001:DB8:0:0:0:0:0:7$/)
})

/** Carries a factory reset out. @returns which files are there after it. */
async function reset(t: Test, device: Device): Promise<readonly string[]> {
  await device.service.close()
  const state = new Files(join(device.root, 'var/lib/receiverd'))
  await orderReset(state, false)
  t.ok(await finishReset(state, new System(device.root, device.options), () => undefined))
  return ['key', 'certificate'].filter(name => existsSync(device.path(name)))
}

t.test('a factory reset removes it with its key; a pair that came with the image stays', async t => {
  const own = await start(t)
  await untilReloaded(own, 1)
  t.same(await reset(t, own), [])

  const replaced = await start(t)
  await untilReloaded(replaced, 1)
  putOwners(replaced)
  await untilReloaded(replaced, 2)
  t.same(await reset(t, replaced), [], 'before the first change there was none')

  const shipped = await startWithOwners(t)
  await untilReloaded(shipped, 1)
  t.same(await reset(t, shipped), ['key', 'certificate'])
})

/** Resets a device that refuses to remove its key and one that was set aside. */
async function resetWithoutKey(t: Test) {
  const device = await start(t)
  await untilReloaded(device, 1)
  await device.service.patch({ hostname: 'room-5' })
  await untilReloaded(device, 2)
  await device.service.close()
  const aside = `${device.path('key')}.bad`
  writeFileSync(aside, 'of the owner')
  const state = new Files(join(device.root, 'var/lib/receiverd'))
  let isBroken = true
  const fs = intercepted(({ name, path, proceed }) => {
    if (isBroken && name === 'unlink' && /key\.pem(\.bad)?$/.test(path)) throw systemError('EPERM')
    return proceed()
  })
  const finish = async () => {
    const log: string[] = []
    await finishReset(state, new System(device.root, { ...device.options, fs }), (_, line) => log.push(line))
    return log
  }
  await orderReset(state, false)
  t.match(await finish(), [
    'factory reset: restoring',
    'factory reset: could not be put back: certificate set aside, certificate',
    'factory reset: done',
  ])
  const mend = () => {
    isBroken = false
  }
  return { ...device, aside, finish, mend }
}

t.test('files that a factory reset cannot remove are removed by a later start, and spoil no journal', async t => {
  const device = await resetWithoutKey(t)
  const next = await start(t, { root: device.root })
  await untilReloaded(next, 1)
  t.notMatch(next.service.log.join('\n'), /journal/)
  await next.service.close()
  t.match(await device.finish(), [/^factory reset: could not be put back/], 'not yet')
  t.ok(existsSync(device.path('certificate')), 'made here with the key that is still there')
  device.mend()
  t.match(await device.finish(), [/^factory reset: put back now: certificate( set aside)?, certificate( set aside)?$/])
  for (const path of [device.path('key'), device.aside]) t.notOk(existsSync(path), path)
  t.same(await device.finish(), [], 'once')
})

t.test("a key that a factory reset could not remove stays if the owner's certificate needs it by now", async t => {
  const device = await resetWithoutKey(t)
  device.mend()
  const subject = ['-subj', '/O=Example/CN=room-4.example', '-days', '90']
  execFileSync('openssl', ['req', '-x509', '-key', device.path('key'), ...subject, '-out', device.path('certificate')])
  t.same(await device.finish(), ['factory reset: put back now: certificate set aside'])
  t.ok(existsSync(device.path('key')) && existsSync(device.path('certificate')))
})

const PEM_CHAIN = 'application/pem-certificate-chain'

async function request({ service }: Device, body?: object): Promise<Buffer> {
  const json = { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }
  const answer = await service.fetch('/certificate/request', { method: 'POST', ...(body && json) })
  if (answer.status !== 200) throw new Error(await answer.text())
  if (answer.headers.get('content-type') !== 'application/pkcs10') throw new Error('not application/pkcs10')
  return Buffer.from(await answer.arrayBuffer())
}

const put = ({ service }: Device, body: string, type = PEM_CHAIN) =>
  service.fetch('/certificate', { method: 'PUT', headers: { 'Content-Type': type }, body })
const remove = ({ service }: Device) => service.fetch('/certificate', { method: 'DELETE' })
const statusOf = async ({ service }: Device) =>
  ((await (await service.fetch('/status')).json()) as { certificate: Record<string, string> }).certificate
const problemOf = async (answer: Response) => ({ status: answer.status, ...((await answer.json()) as object) })

t.test('a certificate of an authority, by the API and back', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const [pin, own, key] = [pinnedIn(device), device.read().fingerprint256, readFileSync(device.path('key'))]
  t.match(await statusOf(device), { pin, fingerprint: own, madeBy: 'device' })
  const authority = newAuthority(t)
  const names = device.read().subjectAltName
  const leaf = authority.sign(await request(device))
  t.equal(new X509Certificate(leaf).subjectAltName, names, 'for the names of the device')

  t.equal((await put(device, leaf + authority.chain)).status, 204)
  t.equal(device.reloads(), 2, 'in force by then')
  t.equal(readFileSync(device.path('certificate'), 'utf8'), leaf + authority.chain)
  t.same(readFileSync(device.path('key')), key)
  const { fingerprint256, validTo } = new X509Certificate(leaf)
  t.match(await statusOf(device), {
    pin,
    fingerprint: fingerprint256,
    madeBy: 'owner',
    expiresAt: new Date(validTo).toISOString().replace('.000', ''),
  })
  t.match(
    device.service.log.join('\n'),
    /^notice: 127\.0\.0\.1 \(the API key\) replaced the certificate of this device$/m,
  )
  await device.service.patch({ hostname: 'room-5' })
  t.equal((await put(device, leaf)).status, 204, 'without its chain')
  t.equal(device.reloads(), 3)
  await sleep(CERTIFICATE_SETTLE_MS + 200)
  t.equal(device.reloads(), 3, 'its own write is no other change')

  t.equal((await remove(device)).status, 204)
  t.equal(device.reloads(), 4)
  t.match(await statusOf(device), { pin, madeBy: 'device' }, 'with the same key')
  t.match(device.read().subjectAltName, /^DNS:room-5, /)
  const again = device.read().fingerprint256
  t.equal((await remove(device)).status, 204)
  t.equal(device.read().fingerprint256, again, 'nothing to do')
  t.equal(device.reloads(), 4)
})

t.test('a request has the names that a client asks for', async t => {
  const device = await start(t)
  const authority = newAuthority(t)
  const names = ['room-4.example.org', '2001:db8::17']
  const leaf = new X509Certificate(authority.sign(await request(device, { names })))
  t.equal(leaf.subjectAltName, 'DNS:room-4.example.org, IP Address:2001:DB8:0:0:0:0:0:17')
  t.equal(leaf.subject, 'CN=room-4.example.org')
  t.match(new X509Certificate(authority.sign(await request(device, {}))).subjectAltName, device.read().subjectAltName)
  const cases: readonly (readonly [body: object, pointer: string, detail: RegExp])[] = [
    [{ names: [] }, '/names', /./],
    [{ names: ['a b'] }, '/names/0', /Host name or IP address/],
    [{ names: ['a', '*.example.org'] }, '/names/1', /Host name or IP address/],
    [{ names: ['300.1.2.3'] }, '/names/0', /^must be a host name, an IPv4 address or an IPv6 address$/],
    [{ names: ['a', 'a'] }, '/names/1', /^duplicate$/],
    [{ names: Array.from({ length: 17 }, (_, n) => `a${n}`) }, '/names', /not have more than 16 items/],
    [{ name: 'a' }, '/name', /did you mean names/],
  ]
  for (const [body, pointer, detail] of cases) {
    const headers = { 'Content-Type': 'application/json' }
    const init = { method: 'POST', headers, body: JSON.stringify(body) }
    t.match(await problemOf(await device.service.fetch('/certificate/request', init)), {
      status: 422,
      errors: [{ pointer, detail }],
    })
  }
})

t.test('a chain that is refused changes nothing', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const before = readFileSync(device.path('certificate'))
  const authority = newAuthority(t)
  const leaf = authority.sign(await request(device))
  const cases: readonly (readonly [answer: Response, status: number, detail: RegExp])[] = [
    [await put(device, ''), 400, /empty/],
    [await put(device, leaf, 'application/json'), 415, /application\/pem-certificate-chain/],
    [await put(device, 'x'.repeat(64 * 1024 + 1)), 413, /65536 bytes/],
    [
      await put(device, authority.chain),
      422,
      /not for the key of this device; send one that was made from its request/,
    ],
    [await put(device, leaf + readFileSync(device.path('key'), 'utf8')), 422, /private key/],
  ]
  for (const [answer, status, detail] of cases) {
    const text = await answer.text()
    t.match({ status: answer.status, ...JSON.parse(text) }, { status, detail })
    t.notMatch(text, 'BEGIN PRIVATE', 'not repeated')
  }
  device.clock.ms += 40 * DAY_MS
  t.match(await problemOf(await put(device, leaf)), { status: 422, errors: [{ pointer: '', detail: /expired on/ }] })
  t.same(readFileSync(device.path('certificate')), before)
  t.equal(device.reloads(), 1)
  t.notMatch(device.service.log.join('\n'), 'replaced the certificate')
})

t.test('a server that does not take it gets the one before', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const leaf = newAuthority(t).sign(await request(device))
  const before = readFileSync(device.path('certificate'))
  const { pin, fingerprint } = await statusOf(device)
  device.server.refuses = true
  t.match(await problemOf(await put(device, leaf)), {
    status: 500,
    detail: 'The certificate was not taken: systemctl ended with status 1.',
  })
  t.same(readFileSync(device.path('certificate')), before)
  t.match(await statusOf(device), { pin, fingerprint, madeBy: 'device' })
  device.server.refuses = false
  t.equal((await put(device, leaf)).status, 204)
  device.server.refuses = true
  t.equal((await remove(device)).status, 500)
  t.equal(readFileSync(device.path('certificate'), 'utf8'), leaf)
  t.match(await statusOf(device), { pin, madeBy: 'owner' })
})

t.test('where storage refuses it, nothing changes', async t => {
  let code: 'ENOSPC' | 'EROFS' | undefined
  const fs = intercepted(({ name, path, proceed }) => {
    if (code !== undefined && name === 'open' && path.includes('.certificate.pem.')) throw systemError(code)
    return proceed()
  })
  const device = await start(t, { fs })
  await untilReloaded(device, 1)
  const leaf = newAuthority(t).sign(await request(device))
  const before = readFileSync(device.path('certificate'))
  for (const [refusal, status] of [
    ['ENOSPC', 507],
    ['EROFS', 500],
  ] as const) {
    code = refusal
    t.equal((await put(device, leaf)).status, status)
    t.same(readFileSync(device.path('certificate')), before)
  }
  code = undefined
  t.equal((await put(device, leaf)).status, 204)
})

t.test("where storage refuses a key of the device, an owner's pair stays", async t => {
  let isRefused = false
  const fs = intercepted(({ name, path, proceed }) => {
    if (isRefused && name === 'open' && path.includes('.key.pem.')) throw systemError('ENOSPC')
    return proceed()
  })
  const device = await startWithOwners(t, undefined, fs)
  await untilReloaded(device, 1)
  const pair = () =>
    ['key', 'certificate'].map(name => existsSync(device.path(name)) && readFileSync(device.path(name)))
  const before = pair()
  isRefused = true
  t.equal((await remove(device)).status, 507)
  t.same(pair(), before)
  isRefused = false
  t.equal((await remove(device)).status, 204)
  t.match(await statusOf(device), { madeBy: 'device' })
})

t.test('a key of the owner gets certificates, too, and gives way to one of the device', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  putOwners(device)
  await untilReloaded(device, 2)
  const { pin } = await statusOf(device)
  const leaf = newAuthority(t).sign(await request(device))
  t.equal((await put(device, leaf)).status, 204)
  t.match(await statusOf(device), { pin, madeBy: 'owner' })
  t.equal((await remove(device)).status, 204)
  t.match(await statusOf(device), { madeBy: 'device' })
  t.not((await statusOf(device)).pin, pin, 'the device makes no RSA keys')
})

t.test('a factory reset removes it with its key; a pair that came with the image comes back', async t => {
  const authority = newAuthority(t)
  const own = await start(t)
  t.equal((await put(own, authority.sign(await request(own)))).status, 204)
  await reset(t, own)
  for (const name of ['key', 'certificate']) t.notOk(existsSync(own.path(name)), name)

  const shipped = await startWithOwners(t)
  const pair = ['key', 'certificate'].map(name => readFileSync(shipped.path(name), 'utf8'))
  t.equal((await put(shipped, authority.sign(await request(shipped)))).status, 204)
  await reset(t, shipped)
  t.same(
    ['key', 'certificate'].map(name => readFileSync(shipped.path(name), 'utf8')),
    pair,
  )
})

t.test('an error of the storage at any step leaves one certificate or the other', async t => {
  const authority = newAuthority(t)
  let isRefused = true
  let n = 0
  while (isRefused) {
    n++
    let isCounting = false
    let steps = 0
    const fs = intercepted(({ path, proceed }) => {
      if (isCounting && path.includes('receiverd') && ++steps >= n) throw systemError('EIO')
      return proceed()
    })
    const device = await start(t, { fs })
    await untilReloaded(device, 1)
    const before = readFileSync(device.path('certificate'), 'utf8')
    const leaf = authority.sign(await request(device))
    isCounting = true
    const { status } = await put(device, leaf)
    isCounting = false
    isRefused = status !== 204
    await device.service.close()
    t.ok([before, leaf].includes(readFileSync(device.path('certificate'), 'utf8')), `step ${n}: ${status}`)
    const next = await start(t, { root: device.root })
    await untilReloaded(next, 1)
    await next.service.close()
  }
  t.ok(n > 3, `${n} steps`)
})

t.test('a certificate that cannot be used is replaced by one of an authority', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const leaf = newAuthority(t).sign(await request(device))
  await device.service.close()
  writeFileSync(device.path('certificate'), 'garbage\n')
  const next = await start(t, { root: device.root })
  t.equal((await put(next, leaf)).status, 204)
  t.match(await statusOf(next), { madeBy: 'owner' })
})

t.test('a name that the device has twice is requested once', async t => {
  const device = await start(t)
  await device.service.patch({ hostname: 'room-6.local' })
  const leaf = new X509Certificate(newAuthority(t).sign(await request(device)))
  t.match(leaf.subjectAltName, /^DNS:room-6\.local, IP Address:/)
})

t.test('a certificate that lives for days is not complained about all its life', async t => {
  const device = await start(t)
  await untilReloaded(device, 1)
  const leaf = newAuthority(t).sign(await request(device), { days: 6 })
  t.equal((await put(device, leaf)).status, 204)
  const complaints = () => device.service.log.filter(line => /expires on/.test(line)).length
  t.equal(complaints(), 0)
  device.clock.ms += 4.5 * DAY_MS
  await device.service.patch({ hostname: 'room-5' })
  await eventually(() => complaints() === 1)
})

t.test('the option is a port', async t => {
  const read = (port: string) => readConfig({ root: '/' }, { RECEIVERD_TLS_PORT: port }, 1).tlsPort
  t.equal(read(''), undefined)
  t.equal(read('8443'), 8443)
  for (const port of ['0', '65536', 'https', '443 ', '-1', '4e2'])
    t.throws(() => read(port), { message: `RECEIVERD_TLS_PORT: "${port}" is not a port from 1 to 65535` })
})
