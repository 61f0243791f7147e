/** A device that lies: it may fail, and holds up neither the program nor the other devices. */
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, createServer as createNetServer } from 'node:net'
import t, { type Test } from 'tap'
import { currentBundle, FLEET_PROGRAM } from '../../build/bundle-file.ts'
import { DeviceClient } from '../../src/fleet/client.ts'
import type { Json } from '../../src/settings-file/settings-file.ts'
import { eventually } from '../support/eventually.ts'
import { NEEDS_ROOT, needs } from '../support/needs.ts'
import { freePort } from '../support/port.ts'
import { type RunOptions, run } from '../support/run.ts'
import { startTestService } from '../support/service.ts'
import { Bridge } from './bridge.ts'
import { certificateOf, Network, type Outcome, Owner, silentAddress } from './support.ts'

const KEY = 'A'.repeat(43)
const LONG = 'x'.repeat(1_000_000)
const DEEP: Json = Array.from({ length: 4_000 }).reduce<Json>(value => [value], [])
/** As many levels of references, each to two of the next: 2^40 values. */
const LEVELS = 40

interface Reply {
  readonly status?: number
  readonly body: Json
}

/** Answers every request so. @returns its address. */
async function liar(t: Test, reply: (request: IncomingMessage) => Reply): Promise<string> {
  const server = createServer((request, response) => {
    const { status = 200, body } = reply(request)
    request.resume()
    const type = status === 200 ? 'application/json' : 'application/problem+json'
    response.writeHead(status, { 'Content-Type': type }).end(JSON.stringify(body))
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function ownerOf(t: Test, address: string): Owner {
  const owner = new Owner(t)
  owner.write('keys.csv', `liar,${KEY}\n`)
  owner.write(
    'fleet.yaml',
    `keys: keys.csv\nsettings: { timezone: UTC }\ndevices: { liar: { address: "${address}" } }\n`,
  )
  return owner
}

/** A device whose time zone differs, and which describes itself with these schemas. */
function describing(schemas: Json, asked: string[] = []) {
  return ({ method = '', url = '' }: IncomingMessage): Reply => {
    asked.push(`${method} ${url}`)
    if (url.endsWith('/openapi.json')) return { body: { components: { schemas } } }
    if (url.includes('validateOnly')) return { body: { changes: { timezone: 'UTC' } } }
    if (method === 'PATCH') return { status: 409, body: { detail: 'No.' } }
    return { body: { timezone: 'Europe/Brussels' } }
  }
}

t.test('long texts are cut, also in the rows of the others', async t => {
  const device = await startTestService(t)
  const owner = ownerOf(t, await liar(t, () => ({ body: { version: LONG, configurationDigest: LONG } })))
  owner.write('keys.csv', `liar,${KEY}\nlobby,${device.key}\n`)
  owner.write(
    'fleet.yaml',
    owner.read('fleet.yaml').replace('liar: {', `lobby: { address: "http://127.0.0.1:${device.port}" }, liar: {`),
  )
  const { stdout } = await owner.run(['list'])
  t.match(stdout, /^lobby .* ok$/m)
  t.ok(stdout.length < 2_000, `${stdout.length} characters`)
})

t.test('a long reason is cut', async t => {
  const owner = ownerOf(t, await liar(t, () => ({ status: 409, body: { detail: LONG } })))
  for (const command of ['list', 'diff']) {
    const { status, stdout, stderr } = await owner.run([command])
    t.equal(status, 1)
    t.match(stdout, 'the service refused: xxx')
    t.ok(stdout.length + stderr.length < 5_000, `${command}: ${stdout.length} characters`)
  }
})

t.test('a device that switches to another protocol fails, and the others carry on', async t => {
  const device = await startTestService(t)
  const server = createNetServer(socket =>
    socket.on('error', () => undefined).end('HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const owner = ownerOf(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  owner.write('keys.csv', `liar,${KEY}\nlobby,${device.key}\n`)
  const lobby = `lobby: { address: "http://127.0.0.1:${device.port}" }, liar: {`
  owner.write('fleet.yaml', owner.read('fleet.yaml').replace('liar: {', lobby))
  for (const command of [
    ['list'],
    ['diff'],
    ['apply', '--yes', '--keep-going'],
    ['remove-issuer', 'a', '--yes', '--keep-going'],
  ]) {
    const { status, of } = await owner.outcomes(command)
    t.equal(status, 1, command.join(' '))
    t.match(of, { liar: { state: 'failed', reason: 'it broke off: no answer' }, lobby: { state: /^(?!failed)/ } })
  }
})

t.test('an answer to a file that arrives byte by byte is not waited for', async t => {
  const server = createNetServer(socket => {
    let drip: NodeJS.Timeout
    socket
      .on('error', () => undefined)
      .on('close', () => clearInterval(drip))
      .once('data', () => {
        socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n')
        drip = setInterval(() => socket.write(' '), 20)
      })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const client = new DeviceClient([{ host: '127.0.0.1', port }], { kind: 'none' }, [KEY], 10_000, 500)
  const chunks = async function* () {
    yield Buffer.from('bundle')
  }
  await t.rejects(client.put('/update/bundle', { headers: {}, bytes: 6, chunks: chunks() }), {
    message: 'it does not answer within 0.5 s',
  })
})

t.test('others that claim to be a device, and are silent, take up none of its time', async t => {
  const device = await startTestService(t)
  const own = certificateOf('lobby')
  const network = await Network.to(t, device.port, own)
  let [accepted, ended] = [0, 0]
  const silent = () =>
    silentAddress(t, socket => {
      accepted++
      socket.on('close', () => ended++).resume()
    })
  const [first, ...others] = [await silent(), await silent(), await silent(), network.address].map(address => ({
    host: '127.0.0.1',
    port: Number(address.split(':')[1]),
  }))
  if (!first) throw new Error('no address')
  const client = new DeviceClient(
    [first, ...others],
    { kind: 'pin', pin: own.pin.slice('sha256//'.length) },
    [device.key],
    10_000,
  )
  const asked = async () => (await client.send('GET', '/system')).body.hardware
  t.ok(await asked())
  await eventually(() => ended === 3)
  t.ok(await asked())
  t.equal(accepted, 3, 'the device is known by now')
})

t.test('changes without end are not shown', async t => {
  for (const [value, change] of [
    ['UTC', LONG],
    [LONG, 'Europe/Paris'],
    [DEEP, 'Europe/Paris'],
  ] as const) {
    const body = ({ method }: IncomingMessage) => ({
      body: method === 'GET' ? { timezone: value } : { changes: { timezone: change } },
    })
    const { status, stdout, stderr } = await ownerOf(t, await liar(t, body)).run(['diff'])
    t.equal(status, 1)
    t.match(stdout, 'failed: liar: its configuration has no end: it is no receiver')
    t.ok(stdout.length + stderr.length < 1_000)
  }
})

t.test('of what a device claims, only the settings that were sent are shown, and printable', async t => {
  const name = '\u001b[2Jall: nothing differs\nhall:'
  const body = ({ method }: IncomingMessage) => ({
    body: method === 'GET' ? { [name]: 1 } : { changes: { [name]: 1, timezone: { [name]: 1 } } },
  })
  const { status, stdout } = await ownerOf(t, await liar(t, body)).run(['diff'])
  t.equal(status, 3)
  t.equal(
    stdout,
    `liar:\n  /timezone/${name.replace(/[\u001b\n]/g, '\ufffd')}: undefined → 1\n1 device: 1 would change\n`,
  )
})

t.test('of a setting in parts, only the parts that were sent are shown', async t => {
  const ntp = { enabled: true, servers: ['evil.example.org'], '1 device: 1 unchanged': 1 }
  const update = { channel: { url: 'https://receiver.example.org' } }
  const body = ({ method }: IncomingMessage) => ({
    body: method === 'GET' ? { ntp: { enabled: false, servers: [] } } : { changes: { ntp, update, timezone: 'UTC' } },
  })
  const owner = ownerOf(t, await liar(t, body))
  owner.write(
    'fleet.yaml',
    owner.read('fleet.yaml').replace('timezone: UTC', 'ntp: { enabled: true }, update: { channel: x }'),
  )
  const { status, stdout } = await owner.run(['diff'])
  t.equal(status, 3)
  t.equal(
    stdout,
    'liar:\n  /ntp/enabled: false → true\n  /update/channel/url: undefined → "https://receiver.example.org"\n1 device: 1 would change\n',
  )
})

t.test('settings without end are not saved', async t => {
  const schemas = { System: { properties: { timezone: {} } } }
  const asked = ({ url }: IncomingMessage) => ({
    body: url?.endsWith('/openapi.json') ? { components: { schemas } } : { timezone: LONG },
  })
  const owner = ownerOf(t, await liar(t, asked))
  mkdirSync(owner.path('saved'))
  const reason = 'its settings have more than 64 KiB: it is no receiver'
  t.match(await owner.outcomes(['backup', 'saved']), { status: 1, of: { liar: { state: 'failed', reason } } })
  t.notOk(owner.has('saved/liar.json'))
})

t.test('references that multiply are not followed', async t => {
  const levels = Array.from({ length: LEVELS }, (_, level) => {
    const next = { $ref: `#/components/schemas/A${level + 1}` }
    return [`A${level}`, { properties: { a: next, b: next } }] as const
  })
  for (const schemas of [
    { System: { $ref: '#/components/schemas/A0' }, ...Object.fromEntries(levels) },
    { System: { properties: { a: { $ref: '#/components/schemas/System' } } } },
  ]) {
    const { of } = await ownerOf(t, await liar(t, describing(schemas))).outcomes(['apply', '--yes'])
    t.match(of.liar, { state: 'failed', reason: 'its description of the API has no end: it is no receiver' })
  }
})

t.test('a time to confirm a change is one that a device can have', async t => {
  for (const [claimed, path] of [
    [1e9, '/api/v1/system?confirmWithin=600'],
    ['1e9', '/api/v1/system'],
  ] as const) {
    const asked: string[] = []
    const schemas = { System: { properties: { timezone: { 'x-confirm-within': claimed } } } }
    const owner = ownerOf(t, await liar(t, describing(schemas, asked)))
    t.match(await owner.outcomes(['apply', '--yes']), { status: 1, of: { liar: { state: 'failed' } } })
    t.ok(asked.includes(`PATCH ${path}`), asked.join())
  }
})

/**
 * Has devices listed where no name server answers, and each name is given up after a second. Only `fine-1` and `fine-2` have an
 * address, and nobody listens there.
 */
async function listUnresolved(t: Test, hosts: readonly string[], options: RunOptions, env: NodeJS.ProcessEnv = {}) {
  const owner = new Owner(t)
  owner.write('hosts', '127.0.0.1 fine-1 fine-2\n', 0o644)
  owner.write('resolv.conf', 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n', 0o644)
  owner.write('nsswitch.conf', 'hosts: files dns\n', 0o644)
  owner.write('token', KEY)
  const lines = hosts.map((host, at) => `  at-${at}: { address: "http://${host}:${at + 1}" }\n`)
  owner.write('fleet.yaml', `token: { file: token }\ndevices:\n${lines.join('')}`)
  const inside =
    'ip link set lo up && for file in hosts resolv.conf nsswitch.conf; do mount --bind $file /etc/$file || exit; done; exec "$@"'
  // It reads no question.
  const server = `require('node:dgram').createSocket('udp4').bind(53, '127.0.0.1', () => {
    const { status } = require('node:child_process').spawnSync(process.execPath, process.argv.slice(1), { stdio: 'inherit' })
    process.exit(status)
  })`
  const program = [currentBundle(FLEET_PROGRAM), 'list', '--json', '--timeout', '3', '--at-once', '200']
  const args = ['--net', '--mount', 'sh', '-c', inside, 'sh', process.execPath, '-e', server, ...program]
  const { status, stdout, stderr } = await run('unshare', args, env, { ...options, cwd: owner.folder })
  t.equal(status, 1, stderr)
  return (JSON.parse(stdout) as { readonly devices: readonly Outcome[] }).devices.map(({ reason }) => reason)
}

const skip = NEEDS_ROOT || needs('ip')

t.test('names that no server resolves hold up no other device', { skip }, async t => {
  // Most have the same one.
  const silent = ['a', 'b', 'c', 'd', ...Array.from({ length: 100 }, () => 'e')].map(name => `${name}.example.org`)
  const reasons = await listUnresolved(t, [...silent, 'fine-1', 'fine-2'], {})
  t.match(reasons.slice(-2), [/^cannot connect to fine-1:105: .*ECONNREFUSED/, /^cannot connect to fine-2:106: /])
})

t.test('nobody waits for names after the report', { skip }, async t => {
  // Two at a time, these would take half a minute.
  const silent = Array.from({ length: 60 }, (_, at) => `${at}.example.org`)
  const reasons = await listUnresolved(t, silent, { withinMs: 15_000 }, { UV_THREADPOOL_SIZE: '4' })
  t.equal(reasons.length, silent.length)
})

t.test('the bridge has no warnings of Node, however many devices there are', async t => {
  const port = await freePort()
  const owner = new Owner(t)
  const names = Array.from({ length: 12 }, (_, at) => `room-${at}`)
  owner.write('keys.csv', names.map(name => `${name},${KEY}\n`).join(''))
  const devices = names.map((name, at) => `  ${name}: { address: "http://127.0.1.${at}:${port}" }\n`).join('')
  owner.write('fleet.yaml', `keys: keys.csv\nbridge: { broker: "mqtt://127.0.0.1:${port}" }\ndevices:\n${devices}`)
  const bridge = new Bridge(t, owner)
  await eventually(() => bridge.count(/^<4>room-11 /) > 0)
  t.equal(await bridge.end('SIGTERM'), 0)
  t.strictSame(
    bridge.log.filter(line => !/^<\d>/.test(line)),
    [],
  )
})
