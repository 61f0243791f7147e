/** A file that is unreadable, or new where nobody looked, keeps no other from being noticed. */
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { startTestService } from '../support/service.ts'

const UNITS = 'etc/systemd/system'

t.test('a loop of links: other settings are read, and this one is again when it is gone', async t => {
  const service = await startTestService(t)
  const stream = await service.stream()
  await stream.block()
  symlinkSync('loop.wants', service.path(`${UNITS}/loop.wants`))
  rmSync(service.path(`${UNITS}/multi-user.target.wants/ssh.service`))
  t.match((await stream.event())?.data, { ssh: { enabled: false } })

  const net = service.path('sys/class/net')
  renameSync(net, `${net}-`)
  symlinkSync('net', net)
  writeFileSync(service.path('etc/systemd/network/99-look.network'), '')
  writeFileSync(service.path('etc/hostname'), 'looped\n')
  t.match((await stream.eventWhere(({ hostname }) => hostname === 'looped')).data, { hostname: 'looped' })
  t.match((await service.system()).value, { hostname: 'looped', network: { eth0: {} } })
  await eventually(() => service.log.some(line => line.startsWith('warning: network: showing its last value')))
  t.equal((await service.patch({ deviceName: 'Still' })).status, 200)
  await stream.eventWhere(({ deviceName }) => deviceName === 'Still')

  rmSync(net)
  renameSync(`${net}-`, net)
  rmSync(`${net}/eth0`)
  await stream.eventWhere(({ network }) => JSON.stringify(network).includes('"present":false'))
})

t.test('a file that becomes a link is followed to where it leads', async t => {
  const service = await startTestService(t)
  const stream = await service.stream()
  await stream.block()
  mkdirSync(service.path('opt'))
  writeFileSync(service.path('opt/name'), 'first\n')
  rmSync(service.path('etc/hostname'))
  symlinkSync('/opt/name', service.path('etc/hostname'))
  await stream.eventWhere(({ hostname }) => hostname === 'first')
  writeFileSync(service.path('opt/name'), 'second\n')
  t.match((await stream.event())?.data, { hostname: 'second' })
})

t.test('a unit that another one pulls in from now on, by a folder that is new', async t => {
  const service = await startTestService(t)
  await service.patch({ ssh: { enabled: false } })
  const stream = await service.stream()
  await stream.block()
  const folder = service.path(`${UNITS}/kiosk.target.wants`)
  mkdirSync(folder)
  symlinkSync('/usr/lib/systemd/system/ssh.service', `${folder}/ssh.service`)
  t.match((await stream.event())?.data, { ssh: { enabled: true } })
  rmSync(`${folder}/ssh.service`)
  t.match((await stream.event())?.data, { ssh: { enabled: false } })
})
