import { lstatSync, mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Test, test } from 'tap'
import type { JsonObject } from '../../../src/json.ts'
import { deviceRoot } from '../../support/device.ts'
import { commands } from '../../support/fakes/commands.ts'
import { FakeSystemd } from '../../support/fakes/systemd.ts'
import { startTestService } from '../../support/service.ts'

const DEVICES = [
  ['receiver', 'Debian, by its service', 'ssh.service'],
  ['x86-box', 'Ubuntu, by a socket that starts the service', 'ssh.socket'],
  ['bare-arm64', 'Yocto, by a socket that starts an instance for each connection', 'sshd.socket'],
] as const

/** A running device with the service on it. */
async function startDevice(t: Test, fixture: string, root = deviceRoot(t, fixture)) {
  const systemd = new FakeSystemd(root)
  systemd.boot()
  const start = () =>
    startTestService(t, {
      root,
      running: true,
      run: commands({ systemctl: systemd.systemctl }),
      monitor: () => () => undefined,
      addresses: () => ({}),
    })
  const service = await start()
  const listening = () => systemd.units.filter(unit => unit.startsWith('ssh') && systemd.isActive(unit))
  const ssh = async () => (await service.system()).value.ssh as JsonObject
  return { root, service, systemd, start, listening, ssh }
}

for (const [fixture, what, unit] of DEVICES)
  test(`${what}: disabled, nobody can log in, now and after a boot; enabled, they can as before`, async t => {
    const { service, systemd, start, listening, ssh } = await startDevice(t, fixture)
    t.strictSame(await ssh(), { enabled: true })
    t.strictSame(listening(), [unit])

    t.match(await (await service.patch({ ssh: { enabled: false } })).json(), { ssh: { enabled: false } })
    t.strictSame(listening(), [])
    systemd.boot()
    t.strictSame(listening(), [], 'after a boot')

    await service.close()
    const next = await start()
    t.match(await (await next.patch({ ssh: { enabled: true } })).json(), { ssh: { enabled: true } })
    t.strictSame(listening(), [unit], 'the unit that the device used before, also after a restart of the service')
    systemd.boot()
    t.strictSame(listening(), [unit], 'after a boot')
  })

test('a service that the socket has started is stopped as well', async t => {
  const { service, systemd, listening } = await startDevice(t, 'x86-box')
  await systemd.systemctl(['systemctl', 'restart', 'ssh.service'])
  t.strictSame(listening(), ['ssh.service', 'ssh.socket'])
  t.equal((await service.patch({ ssh: { enabled: false } })).status, 200)
  t.strictSame(listening(), [])
})

test('where it was never enabled, it is enabled by its service', async t => {
  const { service, listening, ssh } = await startDevice(t, 'raspberry-pi-4')
  t.strictSame(await ssh(), { enabled: false })
  t.equal((await service.patch({ ssh: { enabled: true } })).status, 200)
  t.strictSame(listening(), ['ssh.service'])
})

test('a change by an administrator is an event', async t => {
  const { service, systemd } = await startDevice(t, 'receiver')
  const stream = await service.stream()
  await stream.block()
  await systemd.systemctl(['systemctl', 'disable', 'ssh.service'])
  t.strictSame((await stream.event())?.data, { ssh: { enabled: false } })
  await systemd.systemctl(['systemctl', 'enable', 'ssh.service'])
  t.strictSame((await stream.event())?.data, { ssh: { enabled: true } })
})

test('masked by an administrator, it is disabled and cannot be enabled', async t => {
  const { root, service, ssh } = await startDevice(t, 'bare-arm64')
  const stream = await service.stream()
  await stream.block()
  symlinkSync('/dev/null', join(root, 'etc/systemd/system/sshd.socket'))
  t.strictSame((await stream.event())?.data, { ssh: { enabled: false } })
  const answer = await service.patch({ ssh: { enabled: true } })
  t.equal(answer.status, 422)
  t.match(await answer.json(), { errors: [{ pointer: '/ssh/enabled', detail: 'sshd.socket is masked' }] })
  t.strictSame(await ssh(), { enabled: false })
})

test('a failed stop leaves everything as it was', async t => {
  const { service, systemd, listening, ssh } = await startDevice(t, 'x86-box')
  systemd.broken = 'stop'
  t.equal((await service.patch({ ssh: { enabled: false } })).status, 500)
  t.strictSame(await ssh(), { enabled: true })
  systemd.boot()
  t.strictSame(listening(), ['ssh.socket'])
})

test('links that an administrator made come back if the change is not finished', async t => {
  const { root, service, systemd, start, ssh } = await startDevice(t, 'receiver')
  const link = join(root, 'etc/systemd/system/kiosk.target.wants/ssh.service')
  mkdirSync(dirname(link))
  symlinkSync('/usr/lib/systemd/system/ssh.service', link)
  t.equal((await service.patch({ ssh: { enabled: false } }, {}, '?confirmWithin=600')).status, 200)
  t.strictSame(await ssh(), { enabled: false })
  await service.close()

  const next = await start()
  t.strictSame((await next.system()).value.ssh, { enabled: true })
  t.ok(lstatSync(link).isSymbolicLink())
  t.ok(systemd.isActive('ssh.service'))
})

test('without an SSH server there is no such setting', async t => {
  const root = deviceRoot(t)
  for (const name of ['ssh.service', 'ssh.socket']) rmSync(join(root, 'usr/lib/systemd/system', name))
  rmSync(join(root, 'etc/systemd/system/sshd.service'))
  const { service, ssh } = await startDevice(t, 'receiver', root)
  t.equal(await ssh(), undefined)
  t.match(await (await service.patch({ ssh: { enabled: false } })).json(), {
    errors: [{ pointer: '/ssh', detail: 'not available on this device: no SSH server is installed as a service' }],
  })
})
