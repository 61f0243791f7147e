/** Devices and brokers that lie, flood and forget: the bridge's messages, and its leftovers. */
import { once } from 'node:events'
import { createServer as createHttpServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { Refused } from '../../src/cli/service-client.ts'
import { Broker } from '../../src/fleet/bridge/broker.ts'
import { Credentials } from '../../src/fleet/bridge/credentials.ts'
import { parseFleet } from '../../src/fleet/fleet-file.ts'
import { cpuNs, memoryBytes } from '../bench/proc.ts'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { Mosquitto } from '../support/mosquitto.ts'
import { needs } from '../support/needs.ts'
import { run } from '../support/run.ts'
import { Bridge, LOBBY, PASSWORD, startSite, untilOnline } from './bridge.ts'
import { certificateOf, Owner } from './support.ts'

const skip = needs('mosquitto', 'mosquitto_sub', 'openssl')
const MB = 1024 * 1024

/** The claims of the tokens in the requests that a device got. */
function claimsIn(heads: readonly string[]): readonly { readonly aud?: readonly string[]; readonly exp: number }[] {
  return heads.flatMap(head => {
    const [, payload] = /^authorization: Bearer [\w-]+\.([\w-]+)\./im.exec(head) ?? []
    return payload === undefined ? [] : [JSON.parse(Buffer.from(payload, 'base64url').toString())]
  })
}

function tokenIn(heads: readonly string[]): string {
  return heads.map(head => /^authorization: Bearer (\S+)/im.exec(head)?.[1]).find(token => token !== undefined) ?? ''
}

async function statusOf(url: string, token: string): Promise<number> {
  const response = await fetch(`${url}/api/v1/system`, { headers: { Authorization: `Bearer ${token}` } })
  await response.arrayBuffer()
  return response.status
}

t.test('a device that is asked gets no token for another one', { skip }, async t => {
  const { owner, broker, lobby, hall } = await startSite(t, '[identify]')
  const heads = { lobby: [] as string[], hall: [] as string[] }
  for (const [name, device] of [
    ['lobby', lobby],
    ['hall', hall],
  ] as const)
    device.network.fateOf = head => {
      heads[name].push(head)
      return 'pass'
    }
  const bridge = new Bridge(t, owner)
  const watcher = broker.watch(t)
  await untilOnline(watcher, ['lobby', 'hall.2'])
  await broker.publish('receiverd/lobby/command', 'identify')
  await eventually(() => watcher.json('receiverd/lobby/result'))
  t.ok(heads.lobby.some(head => head.startsWith('POST /api/v1/operations/identify')))
  t.ok(claimsIn(heads.lobby).length > 3)
  for (const { aud } of claimsIn(heads.lobby)) t.same(aud, [`serial:${LOBBY}`])
  t.ok(claimsIn(heads.hall).length > 0)
  for (const { aud } of claimsIn(heads.hall)) t.same(aud, ['host:receiver', 'host:hall.2'])
  const token = tokenIn(heads.lobby)
  t.same([await statusOf(lobby.receiver.url, token), await statusOf(hall.receiver.url, token)], [200, 401])
  await bridge.end('SIGTERM')

  // It is not the device that its owner expects.
  owner.write('fleet.yaml', owner.read('fleet.yaml').replace(LOBBY, '100000009').replace('receiver }', 'lobby }'))
  const other = new Bridge(t, owner)
  const advice = (audience: string) =>
    new RegExp(`its token is for ${audience}: give its serial number in the fleet file`)
  await eventually(() => other.count(advice('serial:100000009')) > 0)
  await eventually(() => other.count(advice('host:hall.2')) > 0)
  t.equal(other.count(/aud of the token does not name this device/), 2)
})

t.test('devices that share a name, and tokens of which half of the time is over', async t => {
  const asked: string[] = []
  const device = createHttpServer((request, response) => {
    asked.push(`authorization: ${request.headers.authorization}`)
    response.setHeader('Content-Type', 'application/json').end('{}')
  }).listen(0, '0.0.0.0')
  await once(device, 'listening')
  t.teardown(() => device.close())
  const { port } = device.address() as AddressInfo
  const owner = new Owner(t)
  owner.write('bridge.pem', certificateOf('bridge').key)
  owner.write(
    'fleet.yaml',
    `bridge: { broker: "mqtt://b", issuer: { name: bridge, key: bridge.pem } }
devices:
  a: { address: "http://127.0.0.1:${port}" }
  b: { address: "http://127.0.0.2:${port}", settings: { hostname: a } }
  c: { address: "http://127.0.0.3:${port}", serial: S7, settings: { hostname: a } }
`,
  )
  const fleet = parseFleet(owner.read('fleet.yaml'), owner.path('fleet.yaml'))
  let now = Date.UTC(2030, 0, 1)
  const credentials = await Credentials.read(fleet, fleet.devices, {
    run: () => Promise.reject(new Error('no program is needed')),
    env: {},
    timeoutMs: DEADLINE_MS,
    log: (_, message) => t.fail(message),
    now: () => now,
  })
  const claims = async (name: string) => {
    await credentials.clientOf(name).send('GET', '/status')
    return claimsIn(asked.slice(-1))[0]
  }
  const advice = 'no token can be for it alone, by its name or address: give its serial number in the fleet file'
  t.throws(() => credentials.clientOf('a'), { message: advice })
  t.throws(() => credentials.clientFor('a', 'identify'), { message: advice })
  const first = await claims('b')
  t.same(first?.aud, ['host:b'])
  t.same((await claims('c'))?.aud, ['serial:S7'])
  now += 5.9 * 3_600_000
  t.same(await claims('b'), first)
  now += 0.2 * 3_600_000
  const exp = Math.floor(now / 1000) + 12 * 3600
  t.match(await claims('b'), { aud: ['host:b'], exp })
  // The clock of this computer was ahead.
  now -= 3_600_000
  t.match(await claims('b'), { exp })
  t.equal(credentials.unreached('b', new Refused(401, { detail: 'The iat of the token lies in the future.' })), '')
  t.match(await claims('b'), { aud: ['host:b'], exp: exp - 3600 })
})

t.test('devices that are looked up, and missed once', async t => {
  const owner = new Owner(t)
  owner.write('bridge.pem', certificateOf('bridge').key)
  const { pin } = certificateOf('lobby')
  owner.write(
    'fleet.yaml',
    `bridge: { broker: "mqtt://b", issuer: { name: bridge, key: bridge.pem } }
devices:
  lobby: { serial: S1, pin: "${pin}" }
  hall: { serial: S2, pin: "${pin}" }
`,
  )
  // As avahi-browse(1) prints them.
  const line = (serial: string) => `=;eth0;IPv4;x;_receiverd._tcp;local;x.local;127.0.0.1;9;"serial=${serial}"\n`
  const scans = [line('S1'), line('S2')]
  const fleet = parseFleet(owner.read('fleet.yaml'), owner.path('fleet.yaml'))
  const credentials = await Credentials.read(fleet, fleet.devices, {
    run: async () => scans.shift() ?? '',
    env: {},
    timeoutMs: DEADLINE_MS,
    log: (_, message) => t.fail(message),
    now: Date.now,
  })
  const missing = 'no receiver with the serial number S2 is on this network'
  t.throws(() => credentials.clientOf('hall'), { message: missing })
  t.equal(credentials.unreached('hall', new Error(missing)), '')
  await new Promise(setImmediate)
  t.doesNotThrow(() => credentials.clientOf('hall'))
  t.doesNotThrow(() => credentials.clientFor('lobby', 'identify'), 'it is where it was')
})

/** A device that changes its configuration as often as its events are read. */
async function startFlood(t: Test) {
  const events = { count: 0, bytes: 0, address: '' }
  const filler = 'x'.repeat(20_000)
  const flood = (response: ServerResponse) => {
    while (!response.destroyed) {
      const event = `event: system.changed\ndata: ${JSON.stringify({ at: events.count++, filler })}\n\n`
      events.bytes += event.length
      if (!response.write(event)) return void response.once('drain', () => flood(response))
    }
  }
  const server = createHttpServer((request, response) => {
    if (request.url === '/api/v1/events') {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      return flood(response)
    }
    response.writeHead(404, { 'Content-Type': 'application/problem+json' }).end('{"detail":"It has none."}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  events.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return events
}

t.test('a device that never stops changing is shown once a second, and keeps nobody busy', { skip }, async t => {
  const { owner, broker, lobby } = await startSite(t, '[]')
  const flood = await startFlood(t)
  owner.write('fleet.yaml', `${owner.read('fleet.yaml')}  flood: { address: "${flood.address}" }\n`)
  const watcher = broker.watch(t)
  const bridge = new Bridge(t, owner)
  await untilOnline(watcher, ['lobby', 'hall.2', 'flood'])
  const pid = bridge.process.pid ?? 0
  const seen = () => watcher.said('receiverd/flood/settings')
  // The burst is over then.
  await eventually(() => seen().length > 3)
  const [began, before, cpu, bytes] = [performance.now(), seen().length, cpuNs(pid), flood.bytes]
  await eventually(() => seen().length >= before + 15)
  const seconds = (performance.now() - began) / 1000
  t.ok(seen().length - before <= 1.3 * seconds + 4, `${seen().length - before} messages in ${seconds} s`)
  const numbers = seen().map(text => Number(JSON.parse(text).at))
  t.same(
    numbers,
    [...numbers].sort((one, other) => one - other),
    'the latest each time',
  )
  // Far more is in the buffers of the two sockets.
  const [perS, share] = [(flood.bytes - bytes) / seconds, (cpuNs(pid) - cpu) / 1e9 / seconds]
  t.ok(perS < MB, `${Math.round(perS / 1024)} KiB/s are read`)
  t.ok(share < 0.5, `${Math.round(100 * share)} % of a core`)
  t.ok(memoryBytes(pid, 'VmRSS') < 200 * MB, `${memoryBytes(pid, 'VmRSS') / MB} MB`)
  t.comment(`${Math.round(100 * share)} % of a core`)
  await lobby.receiver.patch({ groups: ['floor-9'] })
  await eventually(() => watcher.json('receiverd/lobby/settings').groups[0] === 'floor-9')
})

t.test('a waiting device is not on the broker once that may not be true', { skip }, async t => {
  const { owner, broker, lobby, hall } = await startSite(t, '[deny]')
  const watcher = broker.watch(t)
  const isShown = (text: string) => watcher.topics.filter(topic => watcher.text(topic)?.includes(text))
  let bridge = new Bridge(t, owner)
  for (const [device, name] of [
    [lobby, 'Ann'],
    [hall, 'Bob'],
  ] as const) {
    const guest = await device.ask(name)
    await guest.line()
    await eventually(() => isShown(name).length > 0)
  }
  await broker.publish('receiverd/lobby/command', 'deny')
  await eventually(() => watcher.json('receiverd/lobby/result')?.ok)
  const cat = await lobby.ask('Cat')
  await cat.line()
  await eventually(() => isShown('Cat').length > 0)

  await t.test('after a restart with other rights, and of a device that is away', async t => {
    await bridge.end('SIGKILL')
    await hall.receiver.kill()
    t.same([isShown('Cat').length, isShown('Bob').length], [1, 1], 'so far')
    const asked = ['--issuer', 'bridge', '--issuer-key', 'bridge.pem', '--role', 'admin:r', '--audience', '*']
    const { stdout } = await owner.run(['token', ...asked])
    owner.write('fleet.yaml', `token: { env: TOKEN }\n${owner.read('fleet.yaml').replace(/^ {2}issuer: .*\n/m, '')}`)
    bridge = new Bridge(t, owner, { TOKEN: stdout.trim() })
    await untilOnline(watcher, ['lobby'])
    await eventually(() => isShown('Cat').length + isShown('Bob').length === 0)
    await eventually(() => watcher.text('receiverd/hall.2/availability') === 'offline')
    for (const topic of ['sessions', 'result'])
      await eventually(() => watcher.text(`receiverd/lobby/${topic}`) === undefined)
    t.equal(watcher.json('receiverd/lobby/settings').hardware.serial, LOBBY, 'which it may still see')
    await bridge.end('SIGTERM')
  })
})

t.test('a waiting device is not on the broker once the issuer may not see it', { skip }, async t => {
  const { owner, broker, lobby } = await startSite(t, '[]')
  const watcher = broker.watch(t)
  const bridge = new Bridge(t, owner)
  const ann = await lobby.ask('Ann')
  await ann.line()
  await eventually(() => watcher.json('receiverd/lobby/sessions')?.waiting === 'Ann')
  const { issuers } = (await (await lobby.receiver.fetch('/issuers')).json()) as { issuers: unknown }
  t.match(issuers, [{ name: 'bridge' }])
  const { stdout: publicKey } = await openssl(owner)
  const body = JSON.stringify({ publicKey, roles: ['admin:r'] })
  const put = { method: 'PUT', body, headers: { 'Content-Type': 'application/json' } }
  t.match(await lobby.receiver.fetch('/issuers/bridge', put), { ok: true })
  await eventually(() => watcher.text('receiverd/lobby/sessions') === undefined)
  await eventually(() => bridge.count(/lobby is offline: .*the service refused: The issuer of the token/) > 0)
  t.notOk(watcher.topics.some(topic => watcher.text(topic)?.includes('Ann')))
})

function openssl(owner: Owner) {
  return run('openssl', ['pkey', '-in', owner.path('bridge.pem'), '-pubout'])
}

t.test('a removal that is lost is made good', { skip }, async t => {
  const certificate = certificateOf('mqtt')
  const mosquitto = await Mosquitto.start(t, certificate, PASSWORD)
  // Messages to the broker are lost while this is set.
  let isDeaf = false
  // Connections are refused while this is set.
  let isAway = false
  const sockets = new Set<Socket>()
  const proxy = createServer(near => {
    if (isAway) return void near.destroy()
    const far = connect(mosquitto.port, '127.0.0.1')
    for (const socket of [near, far]) socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    sockets.add(near).add(far)
    near.on('data', chunk => isDeaf || far.write(chunk)).on('close', () => far.destroy())
    far.on('data', chunk => near.write(chunk)).on('close', () => near.destroy())
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => proxy.close())
  let stop = new AbortController()
  const log: string[] = []
  const start = () =>
    new Broker({
      ...{ host: '127.0.0.1', port: (proxy.address() as AddressInfo).port, isTls: true, ca: certificate.cert },
      ...{ user: mosquitto.user, password: PASSWORD, clientId: 'x', presence: 'x/bridge', subscriptions: ['y/+'] },
      received: ({ topic }) => broker.remove(topic),
      connected: () => undefined,
      leaving: () => broker.set('x/lobby', ''),
      log: (_, message) => log.push(message),
      random: () => 0,
      signal: stop.signal,
    })
  let broker = start()
  const watcher = mosquitto.watch(t)
  await mosquitto.publish('y/other', 'of another', '--retain')
  let running = broker.run()
  broker.set('x/lobby', 'Ann')
  await eventually(() => watcher.text('x/lobby') === 'Ann' && watcher.text('y/other') === undefined)
  isDeaf = true
  broker.set('x/lobby', '')
  // It is sent, and is lost with the connection.
  await new Promise(setImmediate)
  for (const socket of sockets) socket.destroy()
  isDeaf = false
  await eventually(() => watcher.text('x/lobby') === undefined)

  // A broker that has gone back in time.
  await mosquitto.publish('x/lobby', 'Ann', '--retain')
  await mosquitto.publish('y/other', 'of another', '--retain')
  await eventually(() => watcher.text('x/lobby') === 'Ann')
  for (const socket of sockets) socket.destroy()
  await eventually(() => watcher.text('x/lobby') === undefined && watcher.text('y/other') === undefined)

  // It is not sent yet when the program is stopped.
  broker.set('x/lobby', 'Ann')
  broker.set('x/hall', 'offline')
  await eventually(() => watcher.text('x/lobby') === 'Ann' && watcher.text('x/hall') === 'offline')
  broker.set('x/lobby', '')
  broker.set('x/hall', 'online')
  stop.abort()
  await running
  await eventually(() => watcher.text('x/bridge') === 'offline')
  t.equal(watcher.text('x/lobby'), undefined)
  t.equal(watcher.text('x/hall'), 'offline', 'this is left alone')

  // The broker is away when the program is stopped, but for the last moment.
  stop = new AbortController()
  broker = start()
  running = broker.run()
  broker.set('x/lobby', 'Ann')
  await eventually(() => watcher.text('x/lobby') === 'Ann')
  const before = log.length
  isAway = true
  for (const socket of sockets) socket.destroy()
  await eventually(() => log.length > before && watcher.text('x/bridge') === 'offline')
  const from = watcher.messages.length
  broker.set('x/hall', 'online')
  isAway = false
  stop.abort()
  await running
  await eventually(() => watcher.said('x/bridge', from).length > 0)
  t.same(
    watcher.messages.slice(from).map(({ topic, text }) => [topic, text]),
    [
      ['x/lobby', ''],
      ['x/bridge', 'offline'],
    ],
    'nothing but the removal',
  )
})

/** A packet of MQTT 5 with this first byte. */
function packet(first: number, body: Buffer): Buffer {
  const length: number[] = []
  for (let rest = body.length; ; rest >>= 7) {
    length.push(rest > 127 ? (rest & 127) | 128 : rest)
    if (rest <= 127) return Buffer.concat([Buffer.from([first, ...length]), body])
  }
}

/** The topics of the messages in a client's bytes, and the ids of these and of its subscriptions. */
function messagesIn(bytes: Buffer) {
  const topics: string[] = []
  const ids: Buffer[] = []
  const subscriptions: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const type = (bytes[at++] ?? 0) >> 4
    let length = 0
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++] ?? 0
      length += (byte & 127) << shift
      if (byte < 128) break
    }
    if (type === 3) {
      const end = at + 2 + bytes.readUInt16BE(at)
      topics.push(bytes.toString('utf8', at + 2, end))
      ids.push(bytes.subarray(end, end + 2))
    }
    if (type === 8) subscriptions.push(bytes.subarray(at, at + 2))
    at += length
  }
  return { topics, ids, subscriptions }
}

t.test('a broker that changes a message and ends the connection, both at once', async t => {
  const acknowledge = (id: Buffer) => packet(0x40, Buffer.concat([id, Buffer.from([0, 0])]))
  /** A message on `y`, and a DISCONNECT as of a server that shuts down. */
  const farewell = [packet(0x30, Buffer.from([0, 1, 0x79, 0])), packet(0xe0, Buffer.from([0x8b, 0]))]
  const topics: string[] = []
  const server = createServer(socket => {
    let isFirst = true
    socket
      .on('error', () => undefined)
      .on('data', bytes => {
        const found = messagesIn(bytes)
        topics.push(...found.topics)
        const isOver = found.topics.length > 0 && topics.length === 2
        const answers = [...(isFirst ? [packet(0x20, Buffer.from([0, 0, 0]))] : []), ...found.ids.map(acknowledge)]
        isFirst = false
        socket.write(Buffer.concat([...answers, ...(isOver ? farewell : [])]))
      })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const stop = new AbortController()
  t.teardown(() => stop.abort())
  const log: string[] = []
  const broker = new Broker({
    ...{ host: '127.0.0.1', port: (server.address() as AddressInfo).port, isTls: false, ca: undefined },
    ...{ user: undefined, password: undefined, clientId: 'x', presence: 'x/bridge', subscriptions: [] },
    received: () => broker.set('x/lobby', 'changed'),
    connected: () => undefined,
    leaving: () => undefined,
    log: (_, message) => log.push(message),
    random: () => 0,
    signal: stop.signal,
  })
  broker.set('x/lobby', 'as before')
  const running = broker.run()
  await eventually(() => topics.length === 4)
  t.match(log[1], /is away: it ends the connection \(server shutting down\)/)
  t.same(topics, ['x/bridge', 'x/lobby', 'x/bridge', 'x/lobby'])
  stop.abort()
  await running
})

t.test('a broker that is full of what nobody has is not remembered', async t => {
  const LENGTH = 60_000
  /** One in four is long: together they are 120 MB. */
  const MESSAGES = 8_000
  const text = (topic: string) => {
    const size = Buffer.alloc(2)
    size.writeUInt16BE(topic.length)
    return packet(0x31, Buffer.concat([size, Buffer.from(topic), Buffer.from([0, 0x78])]))
  }
  const long = 'x'.repeat(LENGTH)
  const topics: string[] = []
  let sent = 0
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    let isFirst = true
    socket.on('data', bytes => {
      if (isFirst) socket.write(packet(0x20, Buffer.from([0, 0, 0])))
      isFirst = false
      const found = messagesIn(bytes)
      topics.push(...found.topics)
      // Its availability, and nothing else.
      if (topics.length === 1)
        for (const id of found.ids) socket.write(packet(0x40, Buffer.concat([id, Buffer.from([0, 0])])))
      for (const id of found.subscriptions) socket.write(packet(0x90, Buffer.concat([id, Buffer.from([0, 1])])))
      if (found.subscriptions.length > 0 && sent === 0) more()
    })
    const more = () => {
      while (sent < MESSAGES) {
        const each = [
          ...Array.from({ length: 6 }, () => `receiverd/x${sent}/availability`),
          `homeassistant/device/receiverd/${long}/x${sent}/config`,
          sent % 16 < 8 ? `receiverd/${long}${sent}/availability` : `receiverd/x${sent}/availability/${long}`,
        ][sent++ % 8]
        if (!socket.write(text(each ?? ''))) return void socket.once('drain', more)
      }
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const owner = new Owner(t)
  const { port } = server.address() as AddressInfo
  owner.write(
    'fleet.yaml',
    `bridge: { broker: "mqtt://127.0.0.1:${port}" }
devices: { lobby: { address: "http://127.0.0.1:9", key: abcdefghijklmnopqrstuvw } }
`,
  )
  const bridge = new Bridge(t, owner)
  const pid = bridge.process.pid ?? 0
  await eventually(() => sent === MESSAGES, 4 * DEADLINE_MS)
  await eventually(() => topics.length > 10)
  const mb = memoryBytes(pid, 'VmRSS') / MB
  t.ok(mb < 200, `${mb} MB`)
  t.comment(`${Math.round(mb)} MB`)
  t.ok(Math.max(...topics.map(topic => topic.length)) < 200)
  t.equal(await bridge.end('SIGKILL'), null)
})
