/** Changes by others to the files of the device, before the start and after it. */

import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { startTestService } from '../support/service.ts'

t.test('whatever stands in the files, the service starts, says so, and a PATCH repairs them', async t => {
  const files = [
    'etc/hostname',
    'etc/machine-info',
    'etc/locale.conf',
    'etc/localtime',
    'etc/hosts',
    'usr/lib/os-release',
  ] as const
  const good = { hostname: 'good', deviceName: 'Good', locale: 'de_DE.UTF-8', timezone: 'Asia/Tokyo' }
  for (const garbage of ['', '\0\0\0\0', '\x80\xff', 'x'.repeat(70_000), undefined]) {
    const root = deviceRoot(t)
    for (const file of files) {
      rmSync(`${root}/${file}`)
      if (garbage !== undefined) writeFileSync(`${root}/${file}`, Buffer.from(garbage, 'latin1'))
    }
    const service = await startTestService(t, { root })
    t.match((await service.system()).value, {
      hostname: 'localhost',
      deviceName: 'localhost',
      locale: 'C.UTF-8',
      timezone: 'UTC',
    })
    t.ok(service.log.some(line => /(warning|info): hostname: using the fallback: /.test(line)))
    const answer = await service.patch(good)
    t.equal(answer.status, 200, JSON.stringify(await answer.clone().json()))
    t.match(await answer.json(), good)
  }
})

t.test('a value of garbage is repaired by a patch with the same value as its fallback', async t => {
  const service = await startTestService(t)
  writeFileSync(service.path('etc/hostname'), '\n\n')
  await eventually(async () => (await service.system()).value.hostname === 'localhost')
  t.equal((await service.patch({ hostname: 'localhost' })).status, 200)
  t.equal(readFileSync(service.path('etc/hostname'), 'utf8'), 'localhost\n')
})

t.test('a change from outside is one event, a burst of writes too', async t => {
  const service = await startTestService(t)
  const stream = await service.stream()
  await stream.block()
  const began = performance.now()
  for (let n = 0; n < 50; n++) {
    writeFileSync(service.path('etc/hostname'), '')
    writeFileSync(service.path('etc/hostname'), `name-${n}\n`)
    await new Promise(resolve => setTimeout(resolve, 6))
  }
  const took = performance.now() - began
  let events = 0
  for (;;) {
    const event = await stream.event()
    events++
    if (event?.data?.hostname === 'name-49') break
  }
  t.ok(events <= Math.ceil(took / 100) + 1, `${events} events in ${took} ms`)
})

t.test('every setting is followed', async t => {
  const service = await startTestService(t)
  const stream = await service.stream()
  await stream.block()
  const cases: readonly (readonly [change: () => void, delta: object])[] = [
    [() => writeFileSync(service.path('etc/machine-info'), 'PRETTY_HOSTNAME="A b"\n'), { deviceName: 'A b' }],
    [() => rmSync(service.path('etc/machine-info')), { deviceName: 'receiver' }],
    [() => writeFileSync(service.path('etc/locale.conf'), 'LANG=C.UTF-8\n'), { locale: 'C.UTF-8' }],
    [() => rmSync(service.path('etc/localtime')), { timezone: 'UTC' }],
    [
      () => writeFileSync(service.path('etc/systemd/timesyncd.conf'), '[Time]\nNTP=one.example two.example\n'),
      { ntp: { enabled: true, servers: ['one.example', 'two.example'] } },
    ],
    [
      () => rmSync(service.path('etc/systemd/system/sysinit.target.wants/systemd-timesyncd.service')),
      { ntp: { enabled: false, servers: ['one.example', 'two.example'] } },
    ],
    [
      () => writeFileSync(service.path('usr/lib/os-release'), 'NAME=x\nVERSION_ID=2\n'),
      { firmware: { name: 'x', version: '2', build: '' } },
    ],
  ]
  for (const [change, delta] of cases) {
    change()
    t.match((await stream.event())?.data, delta)
  }
})
