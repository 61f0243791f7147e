/** A device's work for its clients from end to end, wherever it runs: the bundle on a folder, or a board. */
import type { Test } from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { type Api, idOf } from '../support/api.ts'

export interface Target extends Api {
  readFile(path: string): Promise<string>
  /** Another file takes the place, as by an editor or a package's update. */
  replaceFile(path: string, text: string): Promise<void>
  /** Runs a command of receiverd on the device, and returns what it printed. */
  receiverd(...args: string[]): Promise<string>
  /** Restarts the service. The port stays. */
  restart(): Promise<void>
  /** Called after the API key was replaced. */
  loadKey(): Promise<void>
}

/** A change of a setting, and the file where the system itself finds it. */
interface Change {
  readonly patch: JsonObject
  /** The first of these that exists. */
  readonly files: readonly string[]
  readonly holds: RegExp
}

const CHANGES: readonly Change[] = [
  { patch: { hostname: 'e2e-room' }, files: ['/etc/hostname'], holds: /^e2e-room\n$/ },
  {
    patch: { deviceName: 'Großer Saal "7" 🎬' },
    files: ['/etc/machine-info'],
    holds: /^PRETTY_HOSTNAME="Großer Saal \\"7\\" 🎬"$/m,
  },
  {
    patch: { locale: 'POSIX' },
    files: ['/etc/locale.conf', '/etc/default/locale'],
    holds: /^LANG="?POSIX"?$/m,
  },
  {
    patch: { ntp: { enabled: true, servers: ['192.0.2.1', 'time.example'] } },
    files: ['/etc/systemd/timesyncd.conf.d/50-receiverd.conf'],
    holds: /^NTP=192\.0\.2\.1 time\.example$/m,
  },
]

async function firstOf(target: Target, paths: readonly string[]): Promise<string> {
  for (const path of paths) {
    const text = await target.readFile(path).catch(() => undefined)
    if (text !== undefined) return text
  }
  throw new Error(`there is no ${paths.join(', no ')}`)
}

export async function endToEnd(t: Test, target: Target): Promise<void> {
  await t.test('health and the API description need no credential, the rest does', async t => {
    const open = (path: string) => fetch(`${target.url}/api/v1${path}`)
    t.equal((await open('/health')).status, 200)
    const description = (await (await open('/openapi.json')).json()) as JsonObject
    t.match(description.openapi, /^3\.1\./)
    for (const path of ['/system', '/events']) {
      const refused = await open(path)
      t.equal(refused.status, 401)
      t.match(refused.headers.get('www-authenticate'), /^Bearer /)
      t.equal(refused.headers.get('content-type'), 'application/problem+json')
    }
  })

  await t.test('the key and a token, each in four ways', async t => {
    const token = await target.receiverd('token', '--role', 'admin:r', '--expires-in', '1h')
    for (const credential of [target.key, token]) {
      const ways: Record<string, [query: string, authorization?: string]> = {
        Bearer: ['', `Bearer ${credential}`],
        Basic: ['', `Basic ${credential}`],
        'Basic, as a password': ['', `Basic ${Buffer.from(`:${credential}`).toString('base64')}`],
        query: [`?apiKey=${credential}`],
      }
      for (const [way, [query, authorization]] of Object.entries(ways)) {
        const headers = new Headers(authorization === undefined ? [] : [['Authorization', authorization]])
        t.equal((await fetch(`${target.url}/api/v1/system${query}`, { headers })).status, 200, way)
      }
    }
    t.equal((await target.fetchAs(`${token}x`)).status, 401)
  })

  await t.test('a token does what its roles say', async t => {
    const reader = await target.receiverd('token', '--role', 'admin:r')
    const moderator = await target.receiverd('token', '--role', 'moderator:rw')
    t.equal((await target.fetchAs(reader)).status, 200)
    t.equal((await target.patch({}, { Authorization: `Bearer ${reader}` })).status, 403)
    t.equal((await target.fetchAs(reader, '/api-key', { method: 'POST' })).status, 403)
    t.equal((await target.fetchAs(moderator)).status, 403)
  })

  await t.test('a token that the service makes', async t => {
    const body = JSON.stringify({ roles: ['moderator:r'], expiresIn: '1h', subject: 'e2e' })
    const init = { method: 'POST', body, headers: { 'Content-Type': 'application/json' } }
    const answer = await target.fetch('/tokens', init)
    t.equal(answer.status, 201)
    const { token, expiresAt } = (await answer.json()) as { token: string; expiresAt: string }
    t.match(expiresAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    t.equal((await target.fetchAs(token, '/sessions')).status, 200)
    t.equal((await target.fetchAs(token, '/tokens', init)).status, 403, 'makes none itself')
  })

  await t.test('how it is doing, and what it would accept', async t => {
    const read = async (path: string) => (await target.fetch(path)).text()
    t.match(JSON.parse(await read('/status')), { version: /^\d/, clockSet: true, storage: { totalBytes: Number } })
    t.match(await read('/metrics'), /^receiverd_build_info\{version="[^"]+",node="[^"]+"\} 1$/m)
    const { timezone } = JSON.parse(await read('/system/choices')) as { timezone: readonly string[] }
    for (const name of ['UTC', 'Europe/Brussels']) t.ok(timezone.includes(name), name)
  })

  await t.test('a change is in the system, in the answer, in a stream and in a poll', async t => {
    const stream = await target.stream()
    for (const { patch, files, holds } of CHANGES) {
      const [name = ''] = Object.keys(patch)
      const before = await target.system()
      const poll = target.fetch('/events', { headers: { 'If-None-Match': before.etag, Prefer: 'wait=60' } })
      const answer = await target.patch(patch)
      t.equal(answer.status, 200, name)
      t.match(await answer.json(), patch)
      t.match(await firstOf(target, files), holds, files.join(' or '))
      t.match((await stream.eventWhere((_, id) => id === idOf(answer))).data, patch)
      const events = (await (await poll).json()) as { data: JsonObject }[]
      t.match(events[0]?.data, patch, 'the poll that was held')

      const back = await target.patch({ [name]: before.value[name] ?? null })
      t.equal(back.status, 200, `${name} is put back`)
      t.match((await target.system()).value[name], before.value[name])
    }
    stream.close()
  })

  await t.test('a change by something else is an event, too', async t => {
    const before = await target.system()
    const stream = await target.stream()
    await target.replaceFile('/etc/hostname', 'changed-elsewhere\n')
    await stream.eventWhere(({ hostname }) => hostname === 'changed-elsewhere')
    t.pass('the new name')
    await target.patch({ hostname: before.value.hostname ?? '' })
    await stream.eventWhere(({ hostname }) => hostname === before.value.hostname)
    await target.replaceFile('/etc/hostname', '\0 garbage')
    t.equal((await target.patch({ hostname: 'repaired' })).status, 200)
    t.equal(await target.readFile('/etc/hostname'), 'repaired\n', 'a PATCH repairs it')
    t.equal((await target.patch({ hostname: before.value.hostname ?? '' })).status, 200)
    stream.close()
  })

  await t.test('a refusal says what and where, and changes nothing', async t => {
    const before = await target.system()
    const refused = await target.patch({ timezone: 'Atlantis/City', deviceName: 'Not this one', shoe: 43 })
    t.equal(refused.status, 422)
    t.match(await refused.json(), { errors: [{ pointer: '/timezone' }, { pointer: '/shoe' }] })
    t.equal((await target.patch({}, { 'If-Match': '"00000000-0000-4000-8000-000000000000"' })).status, 412)
    t.equal((await target.patch('{', {})).status, 400)
    t.equal((await target.patch('{}', { 'Content-Type': 'text/plain' })).status, 415)
    t.equal((await target.patch(`"${'x'.repeat(70_000)}"`)).status, 413)
    t.same(await target.system(), before)
  })

  await t.test('a client resumes where it stopped', async t => {
    const { id, value } = await target.system()
    const names = ['one', 'two', 'three']
    for (const deviceName of names) t.equal((await target.patch({ deviceName })).status, 200)
    const stream = await target.stream('/events', { 'Last-Event-ID': id })
    for (const deviceName of names) t.same((await stream.event())?.data, { deviceName })
    stream.close()
    await target.patch({ deviceName: value.deviceName ?? '' })
  })

  await t.test('a change on trial is kept by a confirmation, and undone without', async t => {
    const { value } = await target.system()
    t.equal((await target.patch({ deviceName: 'Kept' }, {}, '?confirmWithin=60')).status, 200)
    t.equal((await target.patch({ deviceName: 'Another' })).status, 409)
    t.ok((await target.fetch('/system/confirm', { method: 'POST' })).ok)
    const stream = await target.stream()
    const tried = await target.patch({ deviceName: 'Tried' }, {}, '?confirmWithin=5')
    t.equal(tried.headers.get('confirm-within'), '5')
    t.equal((await stream.event())?.data?.deviceName, 'Tried')
    t.equal((await stream.event())?.data?.deviceName, 'Kept')
    // AirPlay's name may be that of the device.
    const isShared = (value.airplay as JsonObject | undefined)?.name === ''
    const properties = isShared ? ['airplay', 'deviceName'] : ['deviceName']
    t.match(await stream.event(), { event: 'system.reverted', data: { properties } })
    stream.close()
    await target.patch({ deviceName: value.deviceName ?? '' })
  })

  await t.test('after a restart a client is told that it missed something, and its copy is whole again', async t => {
    const { id } = await target.system()
    await target.restart()
    const stream = await target.stream('/events', { 'Last-Event-ID': id })
    t.match(await stream.event(), { id: undefined, event: 'events.resync' })
    t.same((await stream.event())?.data, (await target.system()).value)
    stream.close()
  })

  await t.test('a new key ends what the old one had open, and revokes its tokens', async t => {
    const token = await target.receiverd('token', '--role', 'admin:rw')
    const stream = await target.stream('/events', { Authorization: `Bearer ${token}` })
    const old = target.key
    const { apiKey } = (await (await target.fetch('/api-key', { method: 'POST' })).json()) as JsonObject
    await stream.ended
    await target.loadKey()
    t.equal(target.key, apiKey)
    for (const credential of [old, token]) t.equal((await target.fetchAs(credential)).status, 401)
    t.equal((await target.fetch('/system')).status, 200)
  })
}
