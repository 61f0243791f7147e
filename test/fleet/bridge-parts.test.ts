/** The parts of the bridge that strangers reach: they keep their bounds, whatever a device or a broker sends. */
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import t from 'tap'
import { Broker } from '../../src/fleet/bridge/broker.ts'
import { discoveryOf } from '../../src/fleet/bridge/discovery.ts'
import { EventParser } from '../../src/fleet/bridge/event-parser.ts'
import { Follower } from '../../src/fleet/bridge/follower.ts'
import { FrameLimit } from '../../src/fleet/bridge/frame-limit.ts'
import { Orders, orderIn } from '../../src/fleet/bridge/orders.ts'
import type { BridgeSettings } from '../../src/fleet/bridge/settings.ts'
import {
  type DeviceState,
  messagesOf,
  NOTHING_KNOWN,
  sessionsIn,
  statusIn,
  updateIn,
} from '../../src/fleet/bridge/state.ts'
import { DeviceClient } from '../../src/fleet/client.ts'
import type { FleetDevice } from '../../src/fleet/fleet-file.ts'
import type { JsonObject } from '../../src/json.ts'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { problemsOf, shownBy } from '../support/home-assistant.ts'
import { needs } from '../support/needs.ts'
import { Random, SEED } from '../support/random.ts'

const SETTINGS: BridgeSettings = {
  host: 'mqtt.example.org',
  port: 8883,
  isTls: true,
  ca: undefined,
  user: undefined,
  password: undefined,
  prefix: 'site/receivers',
  discovery: 'homeassistant',
  allow: ['identify', 'end'],
  issuer: undefined,
}
const DEVICE: FleetDevice = {
  name: 'lobby',
  groups: [],
  endpoint: { host: '2001:db8::1', port: 443 },
  serial: '',
  proof: { kind: 'pin', pin: '' },
  key: undefined,
  settings: {},
}
const UPDATABLE: DeviceState = {
  isOnline: true,
  settings: { deviceName: 'Board room', hardware: { model: 'Pi', serial: '100' }, network: {}, wifi: {}, groups: [] },
  sessions: [],
  status: statusIn({ version: '1.0', temperatureC: 51.4, clockSet: false, storage: { readOnly: true }, uptimeS: 9 }),
  update: updateIn({ running: { version: '1.0.0' }, state: 'idle' }),
}

t.test('events in pieces of any size', async t => {
  const stream =
    ': hello\n\nretry: 2500\n\nid: 1\nevent: a\ndata: {"é":1}\n\n: \n\nid: 2\r\nevent: b\r\ndata: x\r\n\r\n'
  for (let size = 1; size < 40; size++) {
    const parser = new EventParser(100)
    const bytes = Buffer.from(stream)
    const events = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      parser.push(bytes.subarray(at * size, (at + 1) * size)),
    ).flat()
    t.same(events, [
      { id: '1', event: 'a', data: '{"é":1}' },
      { id: '2', event: 'b', data: 'x' },
    ])
    t.equal(parser.retryMs, 2500)
  }
  const parser = new EventParser(1_000)
  const endless = () => {
    for (let at = 0; at < 1_001; at++) parser.push(Buffer.from('x'))
  }
  t.throws(endless, { message: 'its events have no end: it is no receiver' })
})

t.test('a device with rare heartbeats stays online; one that is gone does not', async t => {
  const cursors: unknown[] = []
  const id = '11111111-1111-4111-8111-111111111111'
  const server = createHttpServer((request, response) => {
    cursors.push(request.headers['last-event-id'])
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    // The last one is a proxy that answers, and swallows the rest.
    if (cursors.length < 3) response.write(`: hello\n\nid: ${id}\nevent: x\ndata: {}\n\n`)
    else response.flushHeaders()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const client = new DeviceClient([{ host: '127.0.0.1', port }], { kind: 'none' }, ['x'], DEADLINE_MS)
  const stop = new AbortController()
  const said: string[] = []
  const options = {
    ...{ path: '/events', event: 'x', client: () => client, random: () => 0, signal: stop.signal },
    receive: (_: JsonObject, isWhole: boolean) => said.push(isWhole ? 'everything' : 'a change'),
    opened: () => said.push('opened'),
    absent: () => t.fail('absent'),
    lost: (reason: string) => {
      said.push(reason)
      stop.abort()
    },
  }
  await new Follower(options, 2_000).run()
  t.same(said, ['opened', 'everything', 'opened', 'a change', 'it says nothing for 2 s'])
  t.same(cursors, ['00000000-0000-0000-0000-000000000000', id, id])
})

t.test('packets of a broker in pieces of any size', async t => {
  const random = new Random(SEED)
  const packet = (bytes: number) => {
    const length: number[] = []
    for (let rest = bytes; ; ) {
      const digit = rest % 128
      rest = Math.floor(rest / 128)
      length.push(rest > 0 ? digit | 0x80 : digit)
      if (rest === 0) break
    }
    return Buffer.concat([Buffer.from([0x30, ...length]), Buffer.alloc(bytes, 0xff)])
  }
  const accepts = (bytes: Buffer, limit: FrameLimit) => {
    for (let at = 0; at < bytes.length; ) {
      const size = 1 + random.below(300)
      if (!limit.accepts(bytes.subarray(at, at + size))) return false
      at += size
    }
    return true
  }
  const most = 20_000
  for (let round = 0; round < 50; round++) {
    const sizes = [0, 1, 127, 128, 16_383, 16_384, most].map(size => packet(size))
    const limit = new FrameLimit(most)
    t.ok(accepts(Buffer.concat(sizes), limit))
    t.notOk(accepts(packet(most + 1).subarray(0, 5), limit))
  }
  t.notOk(new FrameLimit(2 ** 40).accepts(Buffer.from([0x30, 0xff, 0xff, 0xff, 0xff])), 'a length of five bytes')
})

t.test('a broker that sends more than it may is left at once', async t => {
  const lengths: number[] = []
  const server = createServer(socket => {
    let sent = 0
    socket.on('error', () => undefined).on('close', () => lengths.push(sent))
    // A message of 200 MB.
    socket.write(Buffer.from([0x30, 0x80, 0x84, 0xaf, 0x5f]))
    const chunk = Buffer.alloc(64 * 1024)
    const more = () => {
      while (!socket.destroyed && socket.write(chunk)) sent += chunk.length
    }
    socket.on('drain', more)
    more()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const stop = new AbortController()
  const log: string[] = []
  const broker = new Broker({
    ...{ host: '127.0.0.1', port: (server.address() as AddressInfo).port, isTls: false },
    ...{ ca: undefined, user: undefined, password: undefined, clientId: 'x', presence: 'x', subscriptions: [] },
    received: () => t.fail('received'),
    connected: () => t.fail('connected'),
    leaving: () => t.fail('leaving'),
    log: (_, message) => log.push(message),
    random: () => 0,
    signal: stop.signal,
  })
  const run = broker.run()
  await eventually(() => lengths.length > 1)
  stop.abort()
  await run
  t.match(log, [/is away: it sends a packet of more than 65536 bytes/])
  t.equal(log.length, 1)
  t.ok(Math.max(...lengths) < 16 * 1024 * 1024, `${lengths}`)
})

t.test('orders', async t => {
  const session = '00000000-0000-4000-8000-000000000000'
  for (const [text, order] of [
    ['identify', { command: 'identify', session: undefined }],
    [`{"command":"end","session":"${session}"}`, { command: 'end', session }],
    ['{"command":"admit"}', { command: 'admit', session: undefined }],
    ['{"command":"end","session":"x/../y"}', undefined],
    ['{"command":"end","session":7}', undefined],
    ['constructor', undefined],
    ['null', undefined],
    ['[]', undefined],
    [`"${'x'.repeat(300)}"`, undefined],
    ['{"command":"reboot"}', undefined],
  ] as const)
    t.same(orderIn(text), order, text)

  const stop = new AbortController()
  const done: string[] = []
  let active = 0
  const orders = new Orders(async ({ command, session }) => {
    t.equal(++active, 1)
    done.push(`${command} ${session}`)
    await new Promise(setImmediate)
    active--
    // The pause after it would last a second.
    if (done.length === 2) stop.abort()
  }, stop.signal)
  const taken = Array.from({ length: 10_000 }, (_, at) => orders.take({ command: 'end', session: `${at % 9}` }))
  t.same(taken.slice(0, 9), [true, true, true, true, false, false, false, false, false])
  await eventually(() => done.length === 2)
  t.same(done, ['end 0', 'end 1'])
})

t.test('the messages about a device have bounds', async t => {
  const huge = 'x'.repeat(100_000)
  const list = Array.from({ length: 1_000 }, () => ({ id: huge, state: 'active', name: `\u202e${huge}`, extra: huge }))
  const sessions = sessionsIn(list)
  const { sessions: text = '' } = messagesOf({ ...NOTHING_KNOWN, sessions })
  t.ok(text.length < 64 * 1024, `${text.length}`)
  t.notMatch(text, '\u202e')
  t.same(sessionsIn('none'), [])
  t.same(sessionsIn([null, 7, 'x']), [])
  const strange: JsonObject = { running: 7, state: {}, bundle: [], available: null, last: 'x', percent: 'y', error: 1 }
  t.same(JSON.parse(messagesOf({ ...NOTHING_KNOWN, update: updateIn(strange) }).update ?? ''), {
    installed_version: '',
    latest_version: '',
    in_progress: false,
    update_percentage: null,
  })
})

t.test(
  'Home Assistant is told of updates and problems',
  {
    skip: needs('python3', '/usr/lib/python3/dist-packages/jinja2/__init__.py'),
  },
  async t => {
    t.equal(discoveryOf(SETTINGS, DEVICE, { ...UPDATABLE, update: 'unknown' }, '1'), '', 'not before all is known')
    const discovery = JSON.parse(discoveryOf(SETTINGS, DEVICE, UPDATABLE, '1'))
    t.same(problemsOf('homeassistant/device/site__receivers/lobby/config', discovery), [])
    t.match(discovery.device, {
      identifiers: ['site__receivers_lobby'],
      name: 'Board room',
      model: 'Pi',
      serial_number: '100',
      sw_version: '1.0.0',
      configuration_url: 'https://[2001:db8::1]:443/',
    })
    t.match(discovery.components.update, { platform: 'update', state_topic: 'site/receivers/lobby/update' })
    const shown = (state: DeviceState) => {
      const messages = messagesOf(state)
      return shownBy(discovery, topic => messages[topic.slice(topic.lastIndexOf('/') + 1)])
    }
    t.match(shown(UPDATABLE), { temperature: '51', storage: 'ON', clock: 'ON', update_state: 'idle', session: 'idle' })
    t.same(Object.keys(JSON.parse(messagesOf(UPDATABLE).settings ?? '')), ['deviceName', 'hardware', 'groups'])
    for (const [update, told] of [
      [{ available: { version: '1.1.0' } }, { latest_version: '1.1.0', in_progress: false, update_percentage: null }],
      [{ bundle: { version: '1.2.0' }, state: 'receiving' }, { latest_version: '1.0.0' }],
      [
        { bundle: { version: '1.2.0' }, state: 'downloaded' },
        { latest_version: '1.2.0', in_progress: false },
      ],
      [
        { bundle: { version: '1.2.0' }, state: 'installing', percent: 40 },
        { latest_version: '1.2.0', in_progress: true, update_percentage: 40 },
      ],
      [
        { state: 'restarting', percent: 100 },
        { in_progress: true, update_percentage: null },
      ],
    ] as const) {
      const known = updateIn({ running: { version: '1.0.0' }, state: 'idle', ...update } as unknown as JsonObject)
      const messages = messagesOf({ ...UPDATABLE, update: known })
      t.match(JSON.parse(messages.update ?? ''), { installed_version: '1.0.0', ...told }, JSON.stringify(update))
    }
  },
)
