/** src/fleet/README.md on Home Assistant and MQTT, with mosquitto itself, and two devices. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { type Discovery, problemsOf, shownBy } from '../support/home-assistant.ts'
import { needs } from '../support/needs.ts'
import { Bridge, DISCOVERY, discoveriesIn, PASSWORD, startSite, untilOnline } from './bridge.ts'
import { Owner } from './support.ts'

const skip = needs('mosquitto', 'mosquitto_sub', 'python3', '/usr/lib/python3/dist-packages/jinja2/__init__.py')
/** The longest wait for news of a device, and the same on a machine that stalls: less than the 40 s until a stream is opened anew. */
const [SOON_MS, LATE_MS] = [2_000, 20_000]

t.test('a site', { skip }, async t => {
  const site = await startSite(t, '[identify, admit, end]')
  const { owner, broker, lobby, hall } = site
  // As an earlier bridge has left it.
  await broker.publish('receiverd/attic/availability', 'offline', '--retain')
  await broker.publish('receiverd/attic/settings', '{}', '--retain')
  await broker.publish(`${DISCOVERY}/attic/config`, '{}', '--retain')
  await broker.publish('homeassistant/device/other/attic/config', '{}', '--retain')
  await broker.publish('receiverd/lobby/command', 'admit', '--retain')
  const watcher = broker.watch(t)
  let bridge = new Bridge(t, owner)

  await t.test('devices appear in Home Assistant', async t => {
    await untilOnline(watcher, ['lobby', 'hall.2'])
    const found = await eventually(() => discoveriesIn(watcher).length === 2 && discoveriesIn(watcher))
    t.equal(watcher.text('receiverd/bridge'), 'online')
    for (const topic of watcher.topics.filter(topic => topic.startsWith(DISCOVERY)))
      t.same(problemsOf(topic, watcher.json(topic)), [], topic)
    const ids = found.flatMap(({ device, components }) => [
      ...device.identifiers,
      ...Object.values(components).flatMap(({ unique_id }) => unique_id ?? []),
    ])
    t.equal(new Set(ids).size, ids.length)
    const first = watcher.json(`${DISCOVERY}/lobby/config`) as Discovery
    const { value } = await lobby.receiver.system()
    t.match(first.device, { name: value.deviceName, configuration_url: `https://${lobby.network.address}/` })
    t.match(first.components.admit, { platform: 'button', command_topic: 'receiverd/lobby/command' })
    t.same(first.components.deny, { platform: 'button' }, 'it is not allowed')
    t.same(first.components.update, { platform: 'update' }, 'this device cannot be updated')
    t.same(
      first.availability.map(({ topic }) => watcher.text(topic)),
      ['online', 'online'],
    )
    t.match(
      shownBy(first, topic => watcher.text(topic)),
      {
        session: 'idle',
        mirroring: 'None',
        waiting: 'None',
        asking: 'OFF',
        storage: 'OFF',
        clock: 'OFF',
      },
    )
    t.ok(
      broker.log.some(line => / as receiverd-fleet-receiverd \(p5, /.test(line)),
      'it speaks MQTT 5',
    )
  })

  await t.test('a device that nobody has is removed', async t => {
    await eventually(() => !watcher.topics.some(topic => topic.includes('attic') && !topic.includes('other')))
    t.ok(watcher.text('homeassistant/device/other/attic/config'), 'it is somebody else’s')
    t.equal(bridge.count(/attic is not in the fleet file/), 1)
  })

  await t.test('a setting that is changed by hand is shown', async t => {
    const took: number[] = []
    for (const [groups, change] of [
      ['floor-4', () => writeFileSync(lobby.receiver.path('etc/receiverd/groups.conf'), 'GROUPS=floor-4\n')],
      ['floor-5', () => lobby.receiver.patch({ groups: ['floor-5'] })],
    ] as const) {
      const began = performance.now()
      await change()
      await eventually(() => watcher.json('receiverd/lobby/settings').groups[0] === groups)
      took.push(performance.now() - began)
    }
    t.ok(Math.min(...took) < SOON_MS && Math.max(...took) < LATE_MS, `${took} ms`)
    const { network, wifi, ...shown } = (await lobby.receiver.system()).value
    t.strictSame(watcher.json('receiverd/lobby/settings'), shown)
    t.ok(network, 'and this is not')
  })

  await t.test('somebody who waits is let in, and ended', async t => {
    const shown = () => shownBy(watcher.json(`${DISCOVERY}/lobby/config`), topic => watcher.text(topic))
    const until = (state: string) => eventually(() => watcher.json('receiverd/lobby/sessions').state === state)
    const began = performance.now()
    const ann = await lobby.ask('Ann’s “Pixel” {{ 7 * 7 }}')
    t.match(await ann.line(), { state: 'pending' })
    await until('pending')
    t.ok(performance.now() - began < LATE_MS)
    t.match(shown(), { session: 'pending', waiting: 'Ann’s “Pixel” {{ 7 * 7 }}', mirroring: 'None', asking: 'ON' })
    t.notMatch(watcher.text('receiverd/lobby/sessions'), /192\.0\.2\.9|02:00:00/, 'no address')
    await broker.publish('receiverd/lobby/command', 'admit')
    t.match(await ann.line(), { state: 'active' })
    await until('mirroring')
    t.match(shown(), { session: 'mirroring', waiting: 'None', mirroring: 'Ann’s “Pixel” {{ 7 * 7 }}', asking: 'OFF' })
    await eventually(() => watcher.json('receiverd/lobby/result')?.ok === true)

    const bob = await lobby.ask('Bob')
    const { id } = (await bob.line()) as { id: string }
    await eventually(() => watcher.json('receiverd/lobby/sessions').waiting === 'Bob')
    // He has not been let in, so there is nothing to end.
    await broker.publish('receiverd/lobby/command', JSON.stringify({ command: 'end', session: id }))
    await eventually(() => watcher.json('receiverd/lobby/result').error === 'nobody mirrors')
    const { fateOf } = lobby.network
    lobby.network.fateOf = head => (head.includes('/admit?') ? 'show one at a time' : fateOf(head))
    await broker.publish('receiverd/lobby/command', 'admit')
    const { error } = await eventually(() => {
      const result = watcher.json('receiverd/lobby/result')
      return result.command === 'admit' && result
    })
    t.equal(error, 'somebody else mirrors; end that session first', 'without a name, which would stay there')
    lobby.network.fateOf = fateOf
    bob.close()
    await broker.publish('receiverd/lobby/command', 'end')
    t.match(await ann.line(), { state: 'ended', reason: 'moderator' })
    ann.close()
    await until('idle')
    t.equal(watcher.json('receiverd/hall.2/sessions').state, 'idle')
  })

  await t.test('a command that is not allowed is refused, and logged once', async t => {
    const asked = lobby.asked.length
    for (const text of [
      'deny',
      'restart-receiver',
      'restart-receiver',
      'reboot',
      '{"command":"admit","session":"../x"}',
    ])
      await broker.publish('receiverd/lobby/command', text)
    await broker.publish('receiverd/nobody/command', 'identify')
    const { at, ...unknown } = await eventually(() => {
      const result = watcher.json('receiverd/lobby/result')
      return result.command === undefined && result
    })
    t.match(at, /^\d{4}-/)
    const names = 'identify, restart-receiver, admit, deny, end'
    t.strictSame(unknown, { ok: false, error: `the message is no command; there are ${names}` })
    await broker.publish('receiverd/lobby/command', 'deny')
    const error = 'deny is not in bridge.allow of the fleet file'
    await eventually(() => watcher.json('receiverd/lobby/result').error === error)
    t.match(watcher.json('receiverd/lobby/result'), { command: 'deny', ok: false })
    t.equal(bridge.count(/lobby: the message is no command/), 1)
    t.equal(bridge.count(/lobby: restart-receiver is not in bridge.allow/), 1)
    t.equal(bridge.count(/lobby: deny is not in bridge.allow/), 1)
    t.equal(bridge.count(/a command for lobby is retained, and is left alone/), 1)
    t.notOk(lobby.asked.slice(asked).some(line => line.startsWith('POST')))
  })

  await t.test('a flood of commands reaches nobody', async t => {
    const identify = () => hall.asked.filter(line => line.startsWith('POST /api/v1/operations/identify')).length
    const began = performance.now()
    const child = spawn('mosquitto_pub', [...broker.client(), '-t', 'receiverd/hall.2/command', '-l'])
    child.stdin.end('identify\n'.repeat(5_000))
    t.same(await once(child, 'exit'), [0, null])
    const { error } = await eventually(() => watcher.json('receiverd/hall.2/result'))
    t.match(error, /^the service refused: /, 'a service on another root shows nothing')
    await broker.publish('receiverd/hall.2/command', 'end')
    await eventually(() => watcher.json('receiverd/hall.2/result').command === 'end')
    // Once a second.
    const most = 3 + (performance.now() - began) / 1_000
    t.ok(identify() >= 1 && identify() <= most, `${identify()} times`)
  })

  await t.test('the broker restarts', async t => {
    await broker.stop()
    await lobby.receiver.patch({ groups: ['floor-6'] })
    await lobby.receiver.patch({ groups: ['floor-7'] })
    const from = watcher.messages.length
    await broker.start()
    const later = broker.watch(t)
    await untilOnline(later, ['lobby', 'hall.2'])
    await eventually(() => later.json('receiverd/lobby/settings')?.groups[0] === 'floor-7')
    await eventually(() => later.text('receiverd/bridge') === 'online' && discoveriesIn(later).length === 2)
    t.same(
      watcher.said('receiverd/lobby/settings', from).filter(text => text.includes('floor-6')),
      [],
      'the latest alone',
    )
    const away = bridge.log.filter(line => /the broker \S+ is away/.test(line))
    t.ok(away.length > 0)
    t.equal(new Set(away).size, away.length, 'each reason is said once')
    await eventually(() => watcher.json('receiverd/lobby/settings').groups[0] === 'floor-7')
    await eventually(() => watcher.said('receiverd/hall.2/availability', from).length > 0)
  })

  await t.test('a device restarts', async t => {
    await untilOnline(watcher, ['hall.2'])
    const from = watcher.messages.length
    await hall.receiver.restart(() =>
      writeFileSync(hall.receiver.path('etc/receiverd/groups.conf'), 'GROUPS=basement\n'),
    )
    const availability = () => watcher.said('receiverd/hall.2/availability', from)
    await eventually(() => availability().includes('online'))
    t.same(availability(), ['offline', 'online'])
    await eventually(() => watcher.json('receiverd/hall.2/settings').groups[0] === 'basement')
    t.equal(bridge.count(/<4>hall\.2 is offline: it ended the stream: shutting down/), 1)
    t.same(watcher.said('receiverd/lobby/availability', from), [])
  })

  await t.test('a device that is not chosen is offline', async own => {
    own.equal(await bridge.end('SIGTERM'), 0)
    own.equal(watcher.text('receiverd/hall.2/availability'), 'online', 'so far')
    // Nobody's name stays.
    await eventually(() => ['lobby', 'hall.2'].every(name => watcher.text(`receiverd/${name}/sessions`) === undefined))
    bridge = new Bridge(t, owner, {}, ['--device', 'lobby'])
    await untilOnline(watcher, ['lobby'])
    await eventually(() => watcher.text('receiverd/hall.2/availability') === 'offline')
    own.equal(watcher.text('receiverd/hall.2/sessions'), undefined)
  })

  await t.test('a device is removed from the file', async t => {
    t.equal(await bridge.end('SIGTERM'), 0)
    await eventually(() => watcher.text('receiverd/bridge') === 'offline')
    t.ok(watcher.topics.some(topic => topic.includes('hall')))
    site.write(['lobby'])
    bridge = new Bridge(t, owner)
    await eventually(() => watcher.text('receiverd/bridge') === 'online')
    await eventually(() => !watcher.topics.some(topic => topic.includes('hall') && !topic.endsWith('/command')))
    const later = broker.watch(t)
    await untilOnline(later, ['lobby'])
    t.notOk(later.topics.some(topic => topic.includes('hall')))
  })

  await t.test('the program is killed', async () => {
    await untilOnline(watcher, ['lobby'])
    await bridge.end('SIGKILL')
    await eventually(() => watcher.text('receiverd/bridge') === 'offline')
  })

  t.test('no secret was on the broker, or in the log', async t => {
    const all = [...watcher.messages.map(({ topic, text }) => `${topic} ${text}`), ...bridge.log].join('\n')
    t.ok(watcher.messages.length > 30)
    const secrets = [PASSWORD, lobby.receiver.key, hall.receiver.key, 'PRIVATE KEY', 'eyJ', 'apiKey']
    for (const secret of secrets) t.notOk(all.includes(secret), secret)
  })
})

t.test('a broker that does not want it, and devices that do not', { skip }, async t => {
  const { owner, broker, lobby } = await startSite(t, '[]')
  owner.write('mqtt.password', 'wrong')
  const bridge = new Bridge(t, owner)
  await eventually(() => bridge.count(/<4>the broker \S+ is away: Connection refused: Not authorized/) === 1)
  // Twice, at least.
  await eventually(() => broker.log.filter(line => /not authori[sz]ed/i.test(line)).length > 1)
  t.equal(bridge.count(/is away/), 1)
  t.equal(await bridge.end('SIGINT'), 0)

  owner.write('mqtt.password', PASSWORD)
  await lobby.receiver.fetch('/issuers/bridge', { method: 'DELETE' })
  const other = new Bridge(t, owner)
  const watcher = broker.watch(t)
  await untilOnline(watcher, ['hall.2'])
  await eventually(() => other.count(/<4>lobby is offline: the service refused/) > 0)
  await eventually(() => watcher.text('receiverd/lobby/availability') === 'offline')
  t.equal(watcher.text(`${DISCOVERY}/lobby/config`), undefined)
})

t.test('with the keys of the fleet file, which are replaced', { skip }, async t => {
  const { owner, broker, lobby } = await startSite(t, '[identify]')
  owner.write('keys.csv', `lobby,${lobby.receiver.key}\n`)
  const file = owner
    .read('fleet.yaml')
    .replace(/^ {2}issuer: .*\n/m, '')
    .replace(/^ {2}hall\.2: .*\n/m, '')
  owner.write('fleet.yaml', `keys: keys.csv\n${file}`)
  const bridge = new Bridge(t, owner)
  const watcher = broker.watch(t)
  await untilOnline(watcher, ['lobby'])
  const apiKey = 'another-key-0123456789-of-the-device'
  owner.write('keys.csv', `lobby,${apiKey}\n`)
  const headers = { 'Content-Type': 'application/json' }
  t.match(await lobby.receiver.fetch('/api-key', { method: 'POST', headers, body: JSON.stringify({ apiKey }) }), {
    ok: true,
  })
  await eventually(() => watcher.said('receiverd/lobby/availability').slice(-2).join() === 'offline,online')
  await broker.publish('receiverd/lobby/command', 'identify')
  await eventually(() => watcher.json('receiverd/lobby/result'))
  t.notOk(watcher.messages.some(({ text }) => text.includes(apiKey)))
  t.equal(await bridge.end('SIGTERM'), 0)
})

t.test('files that its unit has nothing in are not there', async t => {
  const owner = new Owner(t)
  const bridge = (more: string) =>
    `bridge: { broker: "mqtt://127.0.0.1:9", user: a, password: { file: mqtt.password }${more} }\nkeys: keys.csv\ndevices: { a: { address: "http://127.0.0.1:9" } }\n`
  const env = { CREDENTIALS_DIRECTORY: owner.folder }
  for (const [name, more] of [
    ['mqtt.password', ''],
    ['keys.csv', ''],
    ['bridge.pem', ', issuer: { name: bridge, key: bridge.pem }'],
  ] as const) {
    owner.write('fleet.yaml', bridge(more))
    for (const each of ['mqtt.password', 'keys.csv', 'bridge.pem']) owner.write(each, '#', 0o440)
    if (name !== 'mqtt.password') owner.write('mqtt.password', 'secret', 0o440)
    const { status, stderr } = await owner.run(['bridge'], env)
    t.equal(status, 2, stderr)
    t.match(stderr, `there is no ${owner.path(name)}; LoadCredential= of the unit`)
  }
})

t.test('mistakes in the file', async t => {
  const owner = new Owner(t)
  const said = async (bridge: string) => {
    owner.write('fleet.yaml', `${bridge}\ndevices: { a: { address: "http://192.0.2.1", key: x } }\n`)
    const { status, stderr } = await owner.run(['bridge'])
    t.equal(status, 2, stderr)
    return stderr
  }
  for (const [bridge, message] of [
    ['', /bridge: the fleet file names no broker/],
    ['bridge: { broker: "https://b" }', /:1: bridge\.broker: give mqtts:\/\/HOST/],
    ['bridge: { broker: b, allow: [reboot] }', /bridge\.allow: there is no command "reboot"/],
    ['bridge: { broker: b, allow: [admits] }', /did you mean admit\?/],
    ['bridge: { broker: b, prefix: "a/#" }', /bridge\.prefix: give 1 to 4 levels/],
    ['bridge: { broker: b, prefix: homeassistant/x }', /Home Assistant looks for devices below homeassistant\//],
    ['bridge: { broker: "mqtt://b", ca: x.pem }', /there is no TLS at an mqtt: address/],
    ['bridge: { broker: b, password: x }', /bridge\.password: needs a user/],
    ['bridge: { broker: b, user: a, password: { file: none } }', /there is no .*\/none/],
    ['bridge: { broker: b, issuer: { name: a } }', /bridge\.issuer: give the file of its private key/],
  ] as const)
    t.match(await said(bridge), message, bridge)
})
