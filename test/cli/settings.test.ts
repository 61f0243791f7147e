import { existsSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { configurationSchema } from '../../src/api/system.ts'
import { ServiceClient } from '../../src/cli/service-client.ts'
import { type LoadOptions, loadSettings, saveSettings, writeSettings } from '../../src/cli/settings.ts'
import { deviceRoot } from '../support/device.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { startTestService } from '../support/service.ts'

const ASKING = { isSure: false, isPartial: false }

async function deviceOf(t: Test, fixture?: string) {
  const root = deviceRoot(t, fixture)
  const service = await startTestService(t, {
    root,
    ...(fixture === undefined && new FakeReceiver(root).options),
  })
  const schema = configurationSchema(registry(new System(root)))
  const client = new ServiceClient({ host: '127.0.0.1', port: service.port }, () => service.token(['admin:rw']))
  const value = async () => (await service.system()).value
  return {
    service,
    client,
    value,
    save: (withIdentity = false) => saveSettings(client, schema, withIdentity),
    /** Loads, with these answers to the questions in turn; returns all that the person read. */
    load: async (text: string, options: LoadOptions, ...answers: readonly (boolean | (() => Promise<boolean>))[]) => {
      const read: string[] = []
      const person = {
        say: (line: string) => void read.push(line),
        show: () => undefined,
        ask: async (question: string) => {
          read.push(question)
          const answer = answers[read.filter(line => line.endsWith('?') || line.endsWith('.')).length - 1] ?? false
          return typeof answer === 'function' ? answer() : answer
        },
      }
      const failure = await loadSettings(client, schema, text, options, person).catch(error => error)
      return { read, failure: failure?.message as string | undefined }
    },
  }
}

const fileOf = (settings: object) => JSON.stringify({ format: 'receiverd-settings', version: 1, settings })

t.test('changes are shown and confirmed first; without a yes nothing changes', async t => {
  const { load, value } = await deviceOf(t)
  const before = await value()
  const file = fileOf({ timezone: 'UTC', ntp: { servers: ['a.example'] }, moderation: before.moderation })
  const shown = [
    'These settings would change:',
    '  /timezone: "Europe/Brussels" → "UTC"',
    '  /ntp/servers: [] → ["a.example"]',
    'Load these settings?',
  ]
  t.strictSame(await load(file, ASKING, false), { read: shown, failure: 'nothing was loaded' })
  t.strictSame(await value(), before)
  t.strictSame(await load(file, ASKING, true), { read: [...shown, 'Loaded.'], failure: undefined })
  t.match(await value(), { timezone: 'UTC', ntp: { servers: ['a.example'] } })
  t.strictSame(await load(file, ASKING), { read: ['No setting would change.'], failure: undefined })
})

t.test('settings that a device cannot take are named, and never left out without being told to', async t => {
  const { load, value } = await deviceOf(t)
  const file = fileOf({ timezone: 'UTC', later: { a: 1 }, display: { 'HDMI-A-9': { mode: 'preferred' } } })
  const shown = [
    'These settings would change:',
    '  /timezone: "Europe/Brussels" → "UTC"',
    'This device cannot take:',
    '  /later: unknown property',
    '  /display/HDMI-A-9: no such connector; this device has HDMI-A-1, HDMI-A-2',
  ]
  const refused = 'this device cannot take all of it; --partial loads the rest'
  t.strictSame(await load(file, { isSure: true, isPartial: false }), { read: shown, failure: refused })
  t.equal((await value()).timezone, 'Europe/Brussels')
  t.match(await load(file, ASKING, false), { read: [...shown, 'Load the rest?'] })
  t.equal((await value()).timezone, 'Europe/Brussels')
  t.strictSame(await load(file, { isSure: true, isPartial: true }), { read: [...shown, 'Loaded.'], failure: undefined })
  t.equal((await value()).timezone, 'UTC')
})

t.test('a file of which a device can take nothing is not loaded', async t => {
  const { load } = await deviceOf(t)
  const [sure, none] = [{ isSure: true, isPartial: true }, 'this device can take none of it']
  const file = fileOf({ later: { a: 1 }, display: { 'HDMI-A-9': { mode: 'preferred' } } })
  for (const options of [sure, { isSure: true, isPartial: false }, ASKING])
    t.equal((await load(file, options)).failure, none)
  t.equal((await load(fileOf({ later: 1, timezone: 'Europe/Brussels' }), sure)).failure, undefined, 'it has the rest')
})

t.test('what others change before the answer is not overwritten', async t => {
  const { load, value, service } = await deviceOf(t)
  const meanwhile = async () => {
    await service.patch({ deviceName: 'Theirs' })
    return true
  }
  const { failure } = await load(fileOf({ deviceName: 'Mine' }), ASKING, meanwhile)
  t.equal(failure, 'nothing was loaded, because the settings have changed meanwhile; give the command again')
  t.equal((await value()).deviceName, 'Theirs')
})

t.test('a change that can cut somebody off is kept if they can still say so', async t => {
  const { load, value, service } = await deviceOf(t)
  const file = fileOf({ hostname: 'room-4', timezone: 'UTC' })
  const question = 'Keep them? Otherwise they are undone in 60 s.'
  const meanwhile = async () => {
    t.match(await value(), { hostname: 'room-4', timezone: 'UTC' }, 'on trial')
    t.equal((await service.patch({ deviceName: 'x' })).status, 409)
    return false
  }
  const undone = await load(file, ASKING, true, meanwhile)
  t.equal(undone.failure, 'the settings are as before')
  t.ok(undone.read.includes(question))
  t.match(await value(), { hostname: 'receiver', timezone: 'Europe/Brussels' })

  const late = async () => {
    await service.fetch('/system/confirm', { method: 'DELETE' })
    return true
  }
  t.match(await load(file, ASKING, true, late), { failure: /^the service refused: No change awaits/ })

  t.equal((await load(file, ASKING, true, true)).failure, undefined)
  t.match(await value(), { hostname: 'room-4', timezone: 'UTC' })
  t.equal((await service.patch({ deviceName: 'x' })).status, 200, 'it is kept')

  const sure = await load(fileOf({ hostname: 'room-5' }), { isSure: true, isPartial: false })
  t.strictSame(sure.read.slice(-2), ['  /hostname: "room-4" → "room-5"', 'Loaded.'], 'nothing is asked')
  t.equal((await service.patch({ deviceName: 'y' })).status, 200)
  t.ok(service.said.some(line => /^notice: 127\.0\.0\.1 \(a token\) changed hostname/.test(line)))
})

t.test('what one device saves, another one loads', async t => {
  const [one, other] = [await deviceOf(t), await deviceOf(t, 'raspberry-pi-4')]
  await one.service.patch({ locale: 'C.UTF-8', moderation: { approval: 'moderator', timeoutS: 45 }, deviceName: 'One' })
  const before = (await other.value()).deviceName
  const { failure } = await other.load(await one.save(), { isSure: true, isPartial: true })
  t.equal(failure, undefined)
  t.match(await other.value(), { moderation: { timeoutS: 45 }, deviceName: before })
  await other.load(await one.save(true), { isSure: true, isPartial: true })
  t.equal((await other.value()).deviceName, 'One')
})

t.test('a hostile file is refused, or shown as text', async t => {
  const { load, value, service } = await deviceOf(t)
  const before = await value()
  const failures: readonly (readonly [text: string, failure: RegExp])[] = [
    ['', /^the file has no settings of a receiver$/],
    ['{"hostname":"x"}', /^the file has no settings of a receiver$/],
    [fileOf({ deviceName: 'x'.repeat(70_000) }), /^the service refused: A body must not exceed 65536 bytes$/],
    [fileOf({}).replace('"version":1', '"version":2'), /^the file is of a newer version/],
    [fileOf({ deep: JSON.parse('['.repeat(100) + ']'.repeat(100)) }), /^the service refused: .*more than 32 levels/],
    [fileOf({ many: Array(2_000).fill(0) }), /^the service refused: .*more than 1024 values/],
  ]
  for (const [text, failure] of failures) t.match((await load(text, ASKING)).failure, failure, text.slice(0, 40))
  const names = { '\u001b[2J\u202e/x~': 1, __proto__x: { a: '\n' }, ['n'.repeat(5_000)]: 1 }
  const { read } = await load(fileOf({ ...names, hardware: { serial: 'mine' }, deviceName: 'Evil\u202e' }), ASKING)
  t.notMatch(read.join(''), /[\u001b\u202e\n]/)
  t.ok(read.every(line => line.length < 500))
  t.match(read.join('\n'), /hardware: read-only/)
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`p${at}`, at]))
  t.equal((await load(fileOf(many), ASKING)).read.length, 502, 'all are named')
  t.strictSame(await value(), before)
  t.notOk(service.said.some(line => line.includes('changed')))
})

t.test('no service, or not ours: one line', async t => {
  const answers: readonly (readonly [status: number, body: string])[] = [
    [200, 'hello'],
    [200, '[]'],
    [404, '{"message":"Not Found"}'],
    [200, `"${'x'.repeat(2_000_000)}"`],
  ]
  let next = 0
  const server = createServer((_, response) => {
    const [status, body] = answers[next++] ?? [500, '']
    response.writeHead(status, { 'Content-Length': body.length }).end(body)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = new ServiceClient({ host: '127.0.0.1', port }, () => 'token')
  const because = (reason: string) => ({
    message: `no service answers at 127.0.0.1:${port}: ${reason}; start it, or give its address with --listen`,
  })
  for (const _ of answers) await t.rejects(client.send('GET', '/system'), because('another program does'))
  await new Promise(resolve => server.close(resolve))
  await t.rejects(client.send('GET', '/system'), because('connection refused (ECONNREFUSED)'), 'nobody listens')
  const { service } = await deviceOf(t)
  const stranger = new ServiceClient({ host: '127.0.0.1', port: service.port }, () => 'nobody')
  await t.rejects(stranger.send('GET', '/system'), { message: /^the service refused: .*[^.]$/ })
})

t.test('a service that ends the connection is not said to be missing', async t => {
  const server = createServer((request, response) => {
    const cut = () => request.socket.destroy()
    if (request.url?.endsWith('/reset')) request.socket.resetAndDestroy()
    else if (request.url?.endsWith('/started')) response.writeHead(200, { 'Content-Length': 100 }).write('{', cut)
    else cut()
  })
  server.on('checkContinue', (request, response) => {
    response.writeContinue()
    request.once('data', () => request.socket.resetAndDestroy())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const client = new ServiceClient({ host: '127.0.0.1', port }, () => 'token')
  const ended = (rest = '') => ({
    message: `the service at 127.0.0.1:${port} ended the connection before it had answered${rest}`,
  })
  for (const path of ['/system', '/reset', '/started']) await t.rejects(client.send('GET', path), ended(), path)
  await t.rejects(client.send('PATCH', '/system', {}), ended('; it may have made the change'))
  const chunks = (async function* () {
    for (let n = 0; n < 64; n++) yield Buffer.alloc(65_536)
  })()
  await t.rejects(client.put('/update/bundle', { headers: {}, bytes: 64 * 65_536, chunks }), ended(), 'a file')
})

t.test('a service that takes too long is not said to be missing', async t => {
  const server = createServer((request, response) => {
    if (request.url?.endsWith('/started')) response.writeHead(200, { 'Content-Length': 100 }).write('{')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const client = new ServiceClient({ host: '127.0.0.1', port }, () => 'token', 50)
  const late = (seconds: string, rest = '') => ({
    message: `the service at 127.0.0.1:${port} has not answered within ${seconds} s${rest}`,
  })
  await t.rejects(client.send('GET', '/system'), late('0.05'))
  await t.rejects(client.send('GET', '/started'), late('0.05'), 'in the middle of its answer')
  await t.rejects(client.send('PATCH', '/system?validateOnly=true', {}), late('0.05'))
  for (const method of ['PATCH', 'POST', 'DELETE'])
    await t.rejects(client.send(method, '/system', {}), late('0.2', '; it may still make the change'), method)
})

t.test('a file is saved where it was told, and no folder is replaced or made for it', async t => {
  const root = t.testdir({ empty: {}, folder: {}, old: 'old' })
  await writeSettings(join(root, 'old'), 'new')
  await writeSettings(join(root, 'empty/file'), 'new')
  for (const name of ['old', 'empty/file']) t.equal(readFileSync(join(root, name), 'utf8'), 'new')
  const folder = join(root, 'folder')
  await t.rejects(writeSettings(`${folder}/`, 'new'), { message: `config save: ${folder} is there, and is not a file` })
  t.ok(statSync(folder).isDirectory())
  await t.rejects(writeSettings(join(folder, 'stick/a/file'), 'new'), {
    message: `config save: there is no folder ${join(folder, 'stick/a')}`,
  })
  t.notOk(existsSync(join(folder, 'stick')))
})
