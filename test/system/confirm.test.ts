import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Files } from '../../hal/files/files.ts'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { Originals } from '../../hal/transaction/originals.ts'
import { Transactions } from '../../hal/transaction/transaction.ts'
import { SystemStore } from '../../src/system/store.ts'
import { intercepted, Stopped } from '../hal/support/file-system.ts'
import { deviceRoot } from '../support/device.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { startTestService, type TestService } from '../support/service.ts'

const JOURNAL = 'var/lib/receiverd/journal'

function patch(service: TestService, value: object, seconds: string): Promise<Response> {
  return service.fetch(`/system?confirmWithin=${seconds}`, {
    method: 'PATCH',
    body: JSON.stringify(value),
    headers: { 'Content-Type': 'application/json' },
  })
}

const confirm = (service: TestService) => service.fetch('/system/confirm', { method: 'POST' })

t.test('a confirmed change is kept', async t => {
  const service = await startTestService(t)
  const answer = await patch(service, { hostname: 'room-4' }, '60')
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('confirm-within'), '60')
  t.match(await answer.json(), { hostname: 'room-4' }, 'it is applied at once')
  t.ok(existsSync(service.path(JOURNAL)))

  const waiting = await service.patch({ deviceName: 'Another' })
  t.equal(waiting.status, 409)
  t.match(await waiting.json(), { detail: /confirm/ })

  const confirmed = await confirm(service)
  t.equal(confirmed.status, 200)
  t.match(await confirmed.json(), { hostname: 'room-4' })
  t.notOk(existsSync(service.path(JOURNAL)))
  t.equal((await confirm(service)).status, 409, 'once')
  t.equal((await service.patch({ deviceName: 'Another' })).status, 200)

  await service.close()
  const next = await startTestService(t, { root: service.root })
  t.match((await next.system()).value, { hostname: 'room-4', deviceName: 'Another' })
})

t.test('a change on trial can be seen, and kept or undone by its own ETag alone', async t => {
  const service = await startTestService(t)
  const ask = (method: string, etag: string | null) =>
    service.fetch('/system/confirm', { method, headers: { 'If-Match': etag ?? '' } })
  const trial = async () => ((await (await service.fetch('/status')).json()) as { trial?: object }).trial
  t.equal(await trial(), undefined)
  t.equal((await ask('DELETE', '"x"')).status, 409)

  const first = (await patch(service, { hostname: 'room-4' }, '60')).headers.get('etag')
  t.match(await trial(), { etag: first, properties: ['hostname'], remainingS: /^([345]\d|60)$/, until: /Z$/ })
  const waiting = await service.patch({ deviceName: 'Another' })
  t.equal(waiting.status, 409)
  t.match(waiting.headers.get('retry-after'), /^([345]\d|60)$/)
  // By somebody else, which is an event.
  writeFileSync(service.path('etc/locale.conf'), 'LANG=C.UTF-8\n')
  const stream = await service.stream()
  await stream.block()
  t.equal((await ask('POST', '"64c06ef3-0000-4000-8000-000000000000"')).status, 412)
  t.equal((await ask('POST', `W/${first}`)).status, 412, 'a weak one matches nothing')
  t.equal((await ask('POST', 'garbage')).status, 400)
  t.equal((await ask('POST', first)).status, 200)
  t.equal((await ask('POST', first)).status, 200, 'again, because the answer was lost')
  t.equal((await ask('DELETE', first)).status, 409, 'it is kept')
  t.equal(await trial(), undefined)

  const second = (await patch(service, { hostname: 'room-5' }, '60')).headers.get('etag')
  t.equal((await ask('POST', first)).status, 200, 'the first one is still kept')
  t.match(await trial(), { etag: second }, 'and the second one still on trial')
  const other = await ask('DELETE', '"64c06ef3-0000-4000-8000-000000000000"')
  t.equal(other.status, 412)
  t.equal(other.headers.get('etag'), second)
  const undone = await ask('DELETE', second)
  t.equal(undone.status, 200)
  t.match(await undone.json(), { hostname: 'room-4' })
  t.match((await stream.eventWhere(data => 'reason' in data)).data, {
    reason: 'cancelled',
    properties: ['hostname'],
    notUndone: [],
  })
  t.equal((await ask('POST', second)).status, 409, 'it was undone')
  t.equal((await ask('POST', '*')).status, 409, 'and none is there, although an earlier one was kept')
  t.equal((await service.fetchAs(service.token(['admin:r']), '/system/confirm', { method: 'DELETE' })).status, 403)
  stream.close()
})

t.test('changes of a password, which reads the same before and after, have ETags of their own', async t => {
  const root = deviceRoot(t, 'raspberry-pi-4')
  mkdirSync(join(root, 'proc/sys/kernel'), { recursive: true })
  const service = await startTestService(t, { root, ...new FakeReceiver(root).options })
  const joined = (password: string) =>
    patch(service, { wifi: { country: 'DK', networks: [{ ssid: 'Office', password, hidden: false }] } }, '60')
  const ask = async (method: string, answer: Response) => {
    const headers = { 'If-Match': answer.headers.get('etag') ?? '' }
    return (await service.fetch('/system/confirm', { method, headers })).status
  }
  const first = await joined('password one')
  t.equal(await ask('POST', first), 200)
  const second = await joined('password two')
  t.equal(await ask('POST', first), 200, 'again: it is the change that was kept last')
  t.equal(await ask('DELETE', second), 200)
  t.equal(await ask('POST', second), 409, 'it was undone')
  t.match(readFileSync(service.path('etc/wpa_supplicant/wpa_supplicant-wlan0.conf'), 'utf8'), /psk="password one"/)
  const same = await service.patch({
    wifi: { networks: [{ ssid: 'Office', password: 'password one', hidden: false }] },
  })
  const again = await service.patch({
    wifi: { networks: [{ ssid: 'Office', password: 'password one', hidden: false }] },
  })
  t.equal(again.headers.get('etag'), same.headers.get('etag'), 'the same password is no change')
})

t.test('a confirmation whose answer was lost can be repeated after a restart', async t => {
  const first = await startTestService(t)
  const repeat = (service: TestService, etag: string | null) =>
    service.fetch('/system/confirm', { method: 'POST', headers: { 'If-Match': etag ?? '' } })
  const kept = (await patch(first, { hostname: 'room-4' }, '60')).headers.get('etag')
  t.equal((await repeat(first, kept)).status, 200)
  await first.close()

  const second = await startTestService(t, { root: first.root })
  t.equal((await repeat(second, kept)).status, 200)
  t.equal((await repeat(second, '"64c06ef3-0000-4000-8000-000000000000"')).status, 409, 'no other change')
  t.equal((await confirm(second)).status, 409, 'and none without its ETag')
  t.equal((await second.fetch('/system/confirm', { method: 'DELETE' })).status, 409, 'it is kept')
  await second.close()
})

t.test('a change that was undone at the start is not called kept, wherever the power failed', async t => {
  let isCut = false
  const fs = intercepted(call => {
    if (isCut && call.name === 'unlink' && call.path.endsWith('/journal')) throw new Stopped()
    return call.proceed()
  })
  const root = deviceRoot(t)
  const state = join(root, 'var/lib/receiverd')
  const system = new System(root)
  const settings = registry(system)
  const files = new Files(state, fs)
  const transactions = new Transactions(system, settings, new Journal(files), new Originals(files))
  const ring = { maxEvents: 10, maxBytes: 100_000, newId: randomUUID }
  const store = new SystemStore({ system, state: files, settings, transactions, ring, log: () => undefined })
  await store.start()
  await store.patch({ hostname: 'room-4' }, () => undefined, 60)
  const id = store.trial?.id
  isCut = true
  await t.rejects(store.confirm(() => undefined))
  await store.stop()

  const next = await startTestService(t, { root })
  t.match((await next.system()).value, { hostname: 'receiver' })
  const headers = { 'If-Match': `"${id}"` }
  t.equal((await next.fetch('/system/confirm', { method: 'POST', headers })).status, 409)
})

t.test('a change that is not confirmed in time is undone, and an event says so', async t => {
  const service = await startTestService(t)
  const before = (await service.system()).value
  const hosts = readFileSync(service.path('etc/hosts'))
  const stream = await service.stream()
  await stream.block()
  const began = performance.now()
  const answer = await patch(service, { hostname: 'room-4', ntp: { enabled: false, servers: ['a.example'] } }, '5')
  t.equal(answer.status, 200)
  t.match((await stream.event())?.data, { hostname: 'room-4' })
  t.match((await stream.event())?.data, { hostname: 'receiver', ntp: { enabled: true, servers: [] } })
  t.ok(performance.now() - began >= 4_900)
  const reverted = await stream.event()
  t.equal(reverted?.event, 'system.reverted')
  t.strictSame(reverted?.data, { reason: 'not confirmed', properties: ['ntp', 'hostname'], notUndone: [] })
  t.strictSame((await service.system()).value, before)
  t.strictSame(readFileSync(service.path('etc/hosts')), hosts)
  t.notOk(existsSync(service.path('etc/systemd/timesyncd.conf.d/50-receiverd.conf')))
  t.notOk(existsSync(service.path(JOURNAL)))
  t.equal((await confirm(service)).status, 409, 'too late')
  t.equal((await service.patch({ hostname: 'room-5' })).status, 200)
})

t.test('a restart undoes what was not confirmed, whatever was written since', async t => {
  const service = await startTestService(t)
  const { value: before, id } = await service.system()
  await patch(service, { hostname: 'room-4', locale: 'de_DE.UTF-8' }, '600')
  await service.close()
  t.equal(readFileSync(service.path('etc/hostname'), 'utf8'), 'room-4\n')
  const next = await startTestService(t, { root: service.root })
  t.strictSame((await next.system()).value, before)
  const undone =
    'warning: the change of locale, hostname was undone, because the service was stopped before it was over'
  t.ok(next.log.includes(undone))

  const data = { reason: 'restarted', properties: ['locale', 'hostname'], notUndone: [] }
  const current = await next.system()
  const stream = await next.stream(`/events?initialEventId=${id}`)
  const told = [await stream.event(), await stream.event(), await stream.event()]
  t.strictSame(
    told.map(event => [event?.event, event?.id, event?.data]),
    [
      ['events.resync', undefined, { reason: 'unknown' }],
      ['system.reverted', undefined, data],
      ['system.changed', current.id, current.value],
    ],
    'a client that comes back is told',
  )
  const poll = await next.fetch('/events', { headers: { 'If-None-Match': `"${id}"` } })
  t.equal(poll.headers.get('etag'), `"${current.id}"`)
  t.match(await poll.json(), [{ event: 'events.resync' }, { event: 'system.reverted', data }, { data: current.value }])
  const up = await next.fetch('/events', { headers: { 'If-None-Match': `"${current.id}"`, Prefer: 'wait=0' } })
  t.equal(up.status, 304, 'and one that knows of it is not')

  t.equal((await next.patch({ hostname: 'room-4' })).status, 200)
  const later = await next.fetch('/events', { headers: { 'If-None-Match': `"${id}"` } })
  t.match(await later.json(), [{ event: 'events.resync' }, { event: 'system.changed' }], 'not for ever')
  t.equal((await next.patch({ hostname: before.hostname })).status, 200)

  await next.close()
  const third = await startTestService(t, { root: service.root })
  t.notOk(
    third.log.some(line => line.includes('undone')),
    'once',
  )
  const again = await third.fetch('/events', { headers: { 'If-None-Match': `"${id}"` } })
  t.match(await again.json(), [{ event: 'events.resync' }, { event: 'system.changed' }])
})

t.test('a journal that cannot be read is said to be so, and does not stop the service', async t => {
  const service = await startTestService(t)
  await service.close()
  writeFileSync(service.path(JOURNAL), '[{"setting":')
  const next = await startTestService(t, { root: service.root })
  t.ok(next.log.some(line => /^error: the journal .*not a journal/.test(line)))
  t.equal((await next.patch({ deviceName: 'Still works' })).status, 200)
})

t.test('a time out of range is refused before anything is done', async t => {
  const service = await startTestService(t)
  const { id } = await service.system()
  for (const seconds of ['', '4', '601', '-5', '1e2', '60s', '5&confirmWithin=6'])
    t.equal((await patch(service, { hostname: 'room-4' }, seconds)).status, 400, seconds)
  t.equal((await service.system()).id, id)
})

t.test('a patch that changes nothing has nothing to be confirmed', async t => {
  const service = await startTestService(t)
  const answer = await patch(service, { hostname: 'receiver' }, '5')
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('confirm-within'), null)
  t.equal((await confirm(service)).status, 409)
})

t.test('to confirm takes what it took to change', async t => {
  const service = await startTestService(t)
  const headers = { Authorization: `Bearer ${service.token(['admin:r'])}` }
  t.equal((await service.fetch('/system/confirm', { method: 'POST', headers })).status, 403)
})
