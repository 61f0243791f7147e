import { cpSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { startTestService } from '../support/service.ts'

t.test('hardware that appears after the start is an event, and can be set from then on', async t => {
  const root = deviceRoot(t)
  const receiver = new FakeReceiver(root)
  renameSync(`${root}/sys/class/drm`, `${root}/drm`)
  renameSync(`${root}/proc/asound`, `${root}/asound`)
  const service = await startTestService(t, { root, ...receiver.options })
  const before = (await service.system()).value
  t.match(await (await service.patch({ audio: { volume: 1 } })).json(), {
    errors: [{ pointer: '/audio', detail: 'not available on this device: there is no sound card' }],
  })
  const stream = await service.stream()
  await stream.block()
  renameSync(`${root}/drm`, `${root}/sys/class/drm`)
  renameSync(`${root}/asound`, `${root}/proc/asound`)
  receiver.monitors.tell('add', 'drm')
  receiver.monitors.tell('add', 'sound')
  const event = await stream.event()
  t.equal(event?.event, 'system.changed')
  t.strictSame(Object.keys(event?.data ?? {}), ['display', 'audio'], 'both in one event')
  t.strictSame(event?.data?.audio, { volume: 100, muted: false })

  const { value, id } = await service.system()
  t.equal(id, event?.id)
  // It is for images with two systems.
  const names = registry(new System(root)).flatMap(({ name }) => (name === 'update' ? [] : name))
  t.strictSame(Object.keys(value), names, 'in the order of the registry')
  t.strictSame({ ...value, display: undefined, audio: undefined }, { ...before, display: undefined, audio: undefined })
  for (const name of ['display', 'audio'])
    t.equal(service.log.filter(line => line === `info: ${name}: available now`).length, 1, 'logged once')
  t.equal(service.log.filter(line => line.includes('not available')).length, 3, 'display, audio, update')

  t.equal((await service.patch({ audio: { volume: 52 } })).status, 200)
  t.match((await stream.event())?.data, { audio: { volume: 52 } })
  rmSync(`${root}/sys/class/drm`, { recursive: true })
  t.match(
    (await stream.event())?.data,
    { display: { 'HDMI-A-1': { present: false } } },
    'it is watched, and still shown',
  )
})

t.test('a network interface that appears after the start is an event', async t => {
  const service = await startTestService(t)
  const stream = await service.stream()
  await stream.block()
  const net = service.path('sys/class/net')
  cpSync(`${net}/eth0/`, `${net}/usb0`, { recursive: true, dereference: true })
  writeFileSync(`${net}/usb0/ifindex`, '3\n')
  const event = await stream.event()
  t.match(event?.data, { network: { eth0: { present: true }, usb0: { present: true, method: 'dhcp' } } })
  t.equal((await service.patch({ network: { usb0: { dns: ['192.0.2.7'] } } })).status, 200)
  await eventually(async () => {
    rmSync(`${net}/usb0`, { recursive: true, force: true })
    const { network } = (await service.system()).value as { network: { usb0: { present: boolean } } }
    return !network.usb0.present
  })
})
