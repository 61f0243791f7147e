/** What the engine makes of a UxPlay whose files, sockets and log are given. A real one is in test/engines. */
import { randomUUID } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { UxPlayEngine } from '../../../hal/engines/uxplay.ts'
import { System } from '../../../hal/os/system.ts'
import { MAX_SESSIONS } from '../../../src/limits.ts'
import { Sessions } from '../../../src/sessions/sessions.ts'
import { deviceRoot } from '../../support/device.ts'
import { eventually } from '../../support/eventually.ts'
import { type FakeSocket, FakeUxPlay, VIDEO } from '../../support/fakes/uxplay-run.ts'
import { PIXEL } from '../../support/sessions.ts'

// They mostly wait, each in a room of its own.
t.jobs = 6

interface Phone {
  readonly name: string
  readonly id: string
  readonly peer: string
  readonly inode: number
}

const ANN: Phone = { name: 'Ann', id: 'AA:BB:CC:00:00:01', peer: '192.0.2.1', inode: 10 }
const BOB: Phone = { name: 'Bob', id: 'AA:BB:CC:00:00:02', peer: '192.0.2.2', inode: 20 }
const STRANGER = { peer: '192.0.2.66', inode: 66 }
/** A device that the administrator lets in. */
const BOSS: Phone = { name: 'Boss', id: 'BB:BB:BB:BB:BB:BB', peer: '192.0.2.3', inode: 30 }
const RESTRICTED = `restrict\nallow ${BOSS.id}\n`
const OPEN = 'vs waylandsink\n'

const accepted = (socket: number) => [
  `Accepted IPv4 client on socket ${socket}`,
  'Local : 192.0.2.9',
  'Remote: 192.0.2.1',
]
const BUSY = [
  ...accepted(40),
  '*** WARNING: rejecting new connection request from 192.0.2.66',
  'Connection closed for socket 40',
]
/** More lines than are ever read. */
const CROWD = Array.from({ length: 250 }, () => BUSY).flat()
const request = ({ name, id }: Phone) => `connection request from ${name} (iPhone15,2) with deviceID = ${id}`
const AGENT = 'Client identified as User-Agent: AirPlay/695.12'
const PIN = ['client sent PAIR-PIN-START request', '*** CLIENT MUST NOW ENTER PIN = "0007" AS AIRPLAY PASSWORD']

function start(t: Test, options: string, timeoutS = 60) {
  const root = deviceRoot(t)
  const uxplay = new FakeUxPlay(root, options)
  const system = new System(root, uxplay.systemOptions)
  const log: string[] = []
  const timeout = { s: timeoutS }
  const sessions = new Sessions({
    ring: { maxEvents: 100, maxBytes: 100_000, newId: randomUUID },
    timeoutS: () => timeout.s,
    clock: { now: () => 1_000_999 },
    log: (level, line) => log.push(`${level}: ${line}`),
  })
  const pins: (string | undefined)[] = []
  const engines: UxPlayEngine[] = []
  const run = async () => {
    const engine = new UxPlayEngine(system, uxplay.now)
    engines.push(engine)
    await engine.start(sessions, pin => pins.push(pin))
    return engine
  }
  t.teardown(async () => {
    sessions.stop()
    for (const engine of engines) await engine.stop()
  })
  const listed = () => sessions.all.map(({ state, name, address }) => `${state} ${name} ${address}`)
  const room = {
    root,
    uxplay,
    sessions,
    log,
    pins,
    timeout,
    run,
    listed,
    shown: () => pins.at(-1),
    /** Waits until exactly these are listed. */
    lists: (...expected: readonly string[]) => eventually(() => listed().join() === expected.join()),
    idOf: (name: string) => sessions.all.find(session => session.name === name)?.id ?? '',
    /** The service ends, and starts again. */
    async restart() {
      await engines.at(-1)?.stop()
      for (const { id } of sessions.all) sessions.leave(id)
      return run()
    },
    connects({ peer, inode }: Phone, isFiled = true) {
      uxplay.print(...accepted(19))
      uxplay.accept({ peer, inode })
      if (isFiled) uxplay.file(true)
    },
    async asks(phone: Phone, isFiled = true) {
      room.connects(phone, isFiled)
      await later(5)
      room.isRefused(phone)
      await eventually(() => listed().some(line => line.startsWith(`pending ${phone.name} `)))
    },
    isRefused(phone: Phone) {
      uxplay.print(
        request(phone),
        'client connections have been restricted to those with listed deviceID,',
        `use "-allow ${phone.id}" to allow this client to connect.`,
      )
    },
    /** The engine looks at UxPlay, as it does before each decision: here, there is nothing to decide. */
    looks: () => engines.at(-1)?.admit(''),
    /** A stranger has a connection that says nothing, long before a device comes. */
    async isIdle() {
      const { reads } = uxplay
      uxplay.print(...accepted(18))
      uxplay.accept(STRANGER)
      await eventually(() => uxplay.reads > reads)
      await later(2_100)
    },
    mirrors({ peer, inode }: Phone) {
      uxplay.accept({ peer, inode: inode + 1, port: VIDEO })
    },
    async isAdmitted(phone: Phone) {
      await room.asks(phone)
      await sessions.admit(room.idOf(phone.name), true, 'x')
      t.equal(listed().at(-1), `admitted ${phone.name} ${phone.peer}`)
    },
    /** Other devices find UxPlay busy, which makes the engine look: the second time, the first look is over. */
    async isSeen(lines: readonly string[] = BUSY) {
      for (let looks = 0; looks < 2; looks++) {
        const { reads } = uxplay
        uxplay.print(...lines)
        await eventually(() => uxplay.reads > reads)
      }
    },
    /** Others find UxPlay busy when the device has taken longer to come in than it may. */
    async isLate() {
      uxplay.ahead += 121_000
      await room.isSeen()
    },
    leave() {
      uxplay.print('Connection closed for socket 19')
      uxplay.connect()
      uxplay.file(false)
    },
  }
  return room
}

/** So that a line is dated after the file of a device, as UxPlay's are. */
const later = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

t.test('after a restart of the service, a device that was let in before must ask again', async t => {
  for (const others of ['none', 'a connection that says nothing', 'the device itself'])
    await t.test(others, async t => {
      const room = start(t, RESTRICTED)
      const { uxplay } = room
      await room.run()
      await room.isAdmitted(ANN)
      if (others === 'the device itself') room.connects(ANN)
      else if (others !== 'none') uxplay.accept(STRANGER)
      t.match(uxplay.options, ANN.id)
      await room.restart()
      await eventually(() => !uxplay.options.includes(ANN.id))
    })
})

t.test('a restart of the service interrupts nobody who plays sound while other options wait', async t => {
  const room = start(t, OPEN)
  const { uxplay } = room
  await room.run()
  room.connects(ANN)
  uxplay.print(request(ANN))
  uxplay.configure('s 1280x720\n')
  await room.restart()
  await room.looks()
  await room.looks()
  t.equal(uxplay.starts, 1)
  room.leave()
  await eventually(() => uxplay.starts === 2)
})

t.test('the time to come is over while the device', async t => {
  await t.test('is connecting: it has as much time again', async t => {
    const room = start(t, RESTRICTED)
    const { uxplay, timeout, sessions } = room
    await room.run()
    timeout.s = 0.3
    await room.isAdmitted(ANN)
    const { starts } = uxplay
    room.connects(ANN)
    // Longer than the time to come.
    await later(700)
    t.strictSame(room.listed(), ['admitted Ann 192.0.2.1'])
    t.equal(uxplay.starts, starts)
    uxplay.print(request(ANN))
    room.mirrors(ANN)
    await room.lists('active Ann 192.0.2.1')
    await later(400)
    t.strictSame(room.listed(), ['active Ann 192.0.2.1'])
    t.notHas(sessions.all[0], { deadline: String })
    t.notMatch(room.log.join('\n'), 'timeout')
  })
  await t.test('begins to mirror, which is noticed only then', async t => {
    const room = start(t, RESTRICTED)
    const engine = await room.run()
    await room.isAdmitted(ANN)
    room.connects(ANN)
    await later(5)
    room.uxplay.print(request(ANN))
    room.mirrors(ANN)
    await engine.end(room.idOf('Ann'), 'timeout')
    t.strictSame(room.listed(), ['active Ann 192.0.2.1'])
    await engine.end(room.idOf('Ann'), 'moderator')
    t.strictSame(room.listed(), [])
  })
  await t.test('takes too long', async t => {
    const room = start(t, RESTRICTED)
    const engine = await room.run()
    await room.isAdmitted(ANN)
    room.connects(ANN)
    const id = room.idOf('Ann')
    await engine.end(id, 'timeout')
    t.strictSame(room.listed(), ['admitted Ann 192.0.2.1'])
    room.uxplay.ahead += 121_000
    await engine.end(id, 'timeout')
    t.strictSame(room.listed(), [])
  })
})

t.test('a device that does not come, or is withdrawn, interrupts no other one', async t => {
  for (const other of ['plays sound', 'asks'])
    await t.test(`that ${other}`, async t => {
      const room = start(t, RESTRICTED)
      const { uxplay } = room
      const engine = await room.run()
      await room.isAdmitted(ANN)
      const { starts } = uxplay
      if (other === 'asks') await room.asks(BOB)
      else {
        room.connects(BOSS)
        await later(5)
        uxplay.print(request(BOSS))
      }
      await engine.end(room.idOf('Ann'), 'timeout')
      t.strictSame(room.listed(), other === 'asks' ? ['pending Bob 192.0.2.2'] : [])
      await room.looks()
      t.equal(uxplay.starts, starts)
      t.match(uxplay.options, ANN.id)
      room.leave()
      room.connects(ANN)
      await eventually(() => uxplay.starts === starts + 1)
      t.notMatch(uxplay.options, ANN.id)
    })
})

t.test('a change of its options waits for a device that does not mirror', async t => {
  const room = start(t, OPEN)
  const { uxplay } = room
  const engine = await room.run()
  room.connects(ANN)
  uxplay.configure('s 1280x720\n')
  await engine.approvalChanged()
  t.equal(uxplay.starts, 1)
  room.leave()
  await eventually(() => uxplay.starts === 2)
  uxplay.configure(OPEN)
  await engine.approvalChanged()
  t.equal(uxplay.starts, 3, 'nobody is connected')
})

t.test('it registers with a new host name once nobody is connected', async t => {
  const room = start(t, OPEN)
  const { uxplay } = room
  const engine = await room.run()
  room.connects(ANN)
  mkdirSync(join(room.root, 'proc/sys/kernel'), { recursive: true })
  writeFileSync(join(room.root, 'proc/sys/kernel/hostname'), 'lobby\n')
  await engine.approvalChanged()
  t.equal(uxplay.starts, 1)
  room.leave()
  await eventually(() => uxplay.starts === 2)
})

t.test('approval is no longer needed: a device that asks may try again', async t => {
  const room = start(t, RESTRICTED)
  const engine = await room.run()
  await room.asks(ANN)
  room.uxplay.configure(OPEN)
  await engine.approvalChanged()
  t.equal(room.uxplay.starts, 2)
  await room.lists()
})

t.test('a PIN stays on the screen', async t => {
  const room = start(t, 'pin\n')
  const { uxplay } = room
  await room.run()
  room.connects(ANN)
  await later(5)
  uxplay.print(...PIN)
  await eventually(() => room.shown() === '0007')
  for (let n = 0; n < 10; n++) uxplay.print(...BUSY)
  const { reads } = uxplay
  await eventually(() => uxplay.reads > reads + 1)
  t.strictSame(room.pins, [undefined, '0007'], 'while others find UxPlay busy')
  uxplay.print('client requested pair-setup-pin, x')
  uxplay.print('client requested pair-setup-pin, y')
  await eventually(() => room.shown() === undefined)
  t.pass('until it was entered')
})

t.test('a PIN is hidden when the device leaves, and after two minutes', async t => {
  const room = start(t, 'pin\n')
  const { uxplay } = room
  await room.run()
  for (const how of ['leaves', 'leaves another connection', 'waits']) {
    const { inode, peer } = ANN
    if (how === 'leaves another connection') {
      await room.isIdle()
    }
    room.connects({ ...ANN, inode: inode + room.pins.length })
    await later(5)
    uxplay.print(...PIN)
    await eventually(() => room.shown() === '0007')
    if (how === 'leaves') room.leave()
    else if (how === 'waits') uxplay.ahead += 121_000
    else {
      uxplay.connect([STRANGER])
      uxplay.print(`Connection closed ${peer}`)
    }
    await eventually(() => room.shown() === undefined)
    room.leave()
    t.pass(how)
  }
})

t.test('a device that UxPlay makes no file for sees its PIN', async t => {
  const room = start(t, 'pin\n')
  const { uxplay } = room
  await room.run()
  // Anything may have been printed before the first look.
  await room.looks()
  room.connects(ANN, false)
  uxplay.print(...PIN)
  await eventually(() => room.shown() === '0007')
})

t.test('a device that has asked and left is not listed, although an older connection stays', async t => {
  const room = start(t, RESTRICTED)
  const { uxplay } = room
  await room.run()
  await room.isIdle()
  await room.asks(ANN)
  uxplay.print('Connection closed for socket 19')
  uxplay.connect([STRANGER])
  await room.lists()
  t.pass('UxPlay keeps its file')
  await room.asks(BOB)
  uxplay.file(false)
  await room.lists()
})

t.test('a session shows the device that mirrors, and the log how it differs', async t => {
  const room = start(t, RESTRICTED)
  await room.run()
  await room.isAdmitted(ANN)
  room.connects(ANN)
  await later(5)
  room.uxplay.print(request({ ...ANN, name: 'Mallory' }))
  room.mirrors({ ...ANN, peer: STRANGER.peer })
  await room.lists('active Mallory 192.0.2.66')
  t.match(room.log.at(-1), 'warning: session "Ann" of 192.0.2.1 continues as "Mallory" of 192.0.2.66')
})

t.test('a device is not taken for another one', async t => {
  const huge = 'x'.repeat(5_000)
  await t.test('that mirrored before', async t => {
    const room = start(t, OPEN)
    await room.run()
    room.connects(ANN)
    await later(5)
    room.uxplay.print(request(ANN))
    room.mirrors(ANN)
    await room.lists('active Ann 192.0.2.1')
    room.leave()
    await room.lists()
    room.connects(BOB)
    await later(5)
    room.uxplay.print(request({ ...BOB, name: huge }))
    room.mirrors(BOB)
    await room.lists('active  192.0.2.2')
  })
  await t.test('that was let in', async t => {
    const room = start(t, RESTRICTED)
    await room.run()
    await room.isAdmitted(ANN)
    room.connects(BOSS)
    await later(5)
    room.uxplay.print(request({ ...BOSS, name: huge }))
    room.mirrors(BOSS)
    await room.lists('admitted Ann 192.0.2.1', 'active  192.0.2.3')
  })
  await t.test('unless no other one may come', async t => {
    const room = start(t, 'restrict\n')
    await room.run()
    await room.isAdmitted(ANN)
    room.connects(ANN)
    await later(5)
    room.uxplay.print(request({ ...ANN, name: huge }))
    room.mirrors(ANN)
    await room.lists('active Ann 192.0.2.1')
  })
})

t.test('after a restart of the service, the device that mirrors has its name, however long ago it came', async t => {
  const room = start(t, OPEN)
  const { uxplay } = room
  room.connects(ANN)
  await later(5)
  uxplay.print(request(ANN))
  room.mirrors(ANN)
  for (let n = 0; n < 10; n++) uxplay.print(...BUSY)
  await room.run()
  await room.lists('active Ann 192.0.2.1')
})

/** Ann mirrors, and connections that UxPlay does not accept have been noticed. @param open Connections that it has accepted. */
async function startBehind(t: Test, open: readonly FakeSocket[] = []) {
  const room = start(t, OPEN)
  const { uxplay } = room
  await room.run()
  room.connects(ANN)
  room.mirrors(ANN)
  await room.lists('active  192.0.2.1')
  uxplay.backlog = 2
  uxplay.accept(...open)
  await room.looks()
  return room
}

t.test('a UxPlay that hangs while a device mirrors is restarted after 30 s', async t => {
  const room = await startBehind(t)
  const { uxplay } = room
  uxplay.ahead += 20_000
  await room.looks()
  t.equal(uxplay.starts, 1)
  uxplay.ahead += 10_000
  await eventually(() => uxplay.starts === 2)
  t.match(room.log.at(-1), 'UxPlay was restarted, because it no longer took connections')
  await room.lists()
})

t.test('many connections are no reason to interrupt it', async t => {
  const open = Array.from({ length: 11 }, (_, n) => ({ ...STRANGER, inode: 100 + n }))
  const room = await startBehind(t, open)
  const { uxplay } = room
  uxplay.ahead += 40_000
  await room.looks()
  t.equal(uxplay.starts, 1)
})

t.test('a device that asked while there was no room is listed once there is, and counted once', async t => {
  const room = start(t, RESTRICTED, 600)
  const { sessions } = room
  await room.run()
  const many = { isExclusive: false, admit: async () => undefined, end: async () => undefined }
  const ids = Array.from({ length: MAX_SESSIONS }, () => sessions.enter(many, PIXEL, 'active') ?? '')
  room.connects(ANN)
  await later(5)
  room.isRefused(ANN)
  const turnedAway = () =>
    sessions.outcomes.samples.find(({ labels }) => JSON.stringify(labels).includes('turned away'))
  await eventually(turnedAway)
  const { reads } = room.uxplay
  await eventually(() => room.uxplay.reads > reads + 2)
  for (const id of ids) sessions.leave(id)
  await room.lists('pending Ann 192.0.2.1')
  t.equal(turnedAway()?.value, 1)
})

t.test('a connection that does nothing costs little', async t => {
  const room = start(t, OPEN)
  const { uxplay } = room
  await room.run()
  uxplay.print(...accepted(18))
  uxplay.accept(STRANGER)
  await eventually(() => uxplay.reads > 3)
  uxplay.ahead += 31_000
  // For the looks that are due.
  await later(3_500)
  const { reads } = uxplay
  await later(1_500)
  t.equal(uxplay.reads, reads)
  room.connects(ANN)
  await eventually(() => uxplay.reads > reads)
})

t.test('AirPlay is switched off: a device that was let in must ask again', async t => {
  const room = start(t, RESTRICTED)
  const { uxplay } = room
  await room.run()
  await room.isAdmitted(ANN)
  uxplay.stop()
  uxplay.state = 'activating'
  await room.looks()
  uxplay.ahead += 6_000
  await room.looks()
  t.strictSame(room.listed(), ['admitted Ann 192.0.2.1'], 'systemd is about to start it')
  uxplay.state = 'inactive'
  uxplay.hasJob = true
  await room.looks()
  t.strictSame(room.listed(), ['admitted Ann 192.0.2.1'], 'it waits for weston')
  uxplay.hasJob = false
  await room.lists()
  uxplay.start()
  t.notMatch(uxplay.options, ANN.id)
})

t.test('a flood of connections does not keep a moderator from deciding', async t => {
  const room = start(t, RESTRICTED)
  const { uxplay, sessions } = room
  await room.run()
  await room.asks(ANN)
  const flood = `${' '.repeat(149)}\n`.repeat(30_000)
  uxplay.connect([ANN], flood)
  await sessions.admit(room.idOf('Ann'), true, 'x')
  t.match(uxplay.options, ANN.id)
  uxplay.connect([], flood)
  await sessions.end(room.idOf('Ann'), 'x')
  t.notMatch(uxplay.options, ANN.id)
})

t.test('a device is listed, whatever is logged after it was refused', async t => {
  for (const line of [
    'ignoring AirPlay video streaming request (use option -hls to activate HLS support)',
    '*** ERROR: httpd error in parsing: HPE_INVALID_METHOD',
  ])
    await t.test(line, async t => {
      const room = start(t, RESTRICTED)
      await room.run()
      room.connects(ANN)
      await later(5)
      room.isRefused(ANN)
      room.uxplay.print(...accepted(20), line)
      if (!line.includes('ERROR')) room.uxplay.print('Connection closed for socket 20')
      await room.lists('pending Ann 192.0.2.1')
    })
})

t.test('a device that asks without a file, and leaves', async t => {
  await t.test('is not listed, although an older connection stays', async t => {
    const room = start(t, RESTRICTED)
    await room.run()
    await room.isIdle()
    // A stranger who came a moment ago might be the device.
    room.uxplay.ahead += 121_000
    await room.asks(ANN, false)
    room.uxplay.connect([STRANGER])
    await room.lists()
  })
  await t.test('is not listed while another one is there that has a file', async t => {
    const room = start(t, RESTRICTED)
    const { uxplay } = room
    await room.run()
    // Both at once: either may be hers.
    uxplay.accept(STRANGER)
    await room.asks(ANN, false)
    uxplay.connect([STRANGER])
    await room.isSeen()
    room.connects(BOSS)
    await later(5)
    uxplay.print(request(BOSS), AGENT)
    await room.lists()
    t.equal(uxplay.starts, 1)
  })
})

t.test('after a restart of the service, a device that asks', async t => {
  await t.test('stays listed, whoever leaves', async t => {
    const room = start(t, RESTRICTED)
    await room.run()
    await room.isIdle()
    await room.asks(ANN)
    await room.restart()
    await eventually(() => room.listed().length === 1)
    room.uxplay.connect([ANN])
    await room.isSeen()
    t.match(room.listed(), [/pending Ann/])
  })
  await t.test('and has left unnoticed keeps its time, after which nobody who plays sound is interrupted', async t => {
    const room = start(t, RESTRICTED)
    const { uxplay } = room
    await room.run()
    await room.isIdle()
    await room.asks(ANN)
    const engine = await room.restart()
    await eventually(() => room.listed().length === 1)
    uxplay.connect([STRANGER])
    uxplay.play(true)
    await engine.end(room.idOf('Ann'), 'timeout')
    t.strictSame(room.listed(), [])
    t.equal(uxplay.starts, 1)
  })
})

t.test('a device sees its PIN, however long after it has connected it asks for one', async t => {
  const room = start(t, 'pin\n')
  const { uxplay } = room
  await room.run()
  uxplay.print(...accepted(19))
  uxplay.accept(ANN)
  await later(2_500)
  uxplay.file(true)
  await later(5)
  uxplay.print(...PIN)
  await eventually(() => room.shown() === '0007')
})

t.test('a device that was let in while the disk was full is listed until it leaves', async t => {
  const room = start(t, RESTRICTED)
  const { uxplay } = room
  await room.run()
  await room.isAdmitted(ANN)
  const allowed = join(room.root, 'run/receiverd/uxplay-allowed')
  rmSync(allowed)
  mkdirSync(join(allowed, 'in the way'), { recursive: true })
  room.connects(ANN)
  await later(5)
  uxplay.print(request(ANN), AGENT)
  room.mirrors(ANN)
  await room.lists('active Ann 192.0.2.1')
  await room.looks()
  t.strictSame(room.listed(), ['active Ann 192.0.2.1'], 'once')
  rmSync(allowed, { recursive: true })
  const { starts } = uxplay
  room.leave()
  await room.lists()
  await eventually(() => uxplay.starts > starts)
  t.notMatch(uxplay.options, ANN.id)
})

t.test('a moderator puts out a device that', async t => {
  await t.test('plays sound, and says that it is another one', async t => {
    const room = start(t, RESTRICTED)
    const { uxplay, sessions } = room
    await room.run()
    await room.isAdmitted(ANN)
    const { starts } = uxplay
    room.connects(ANN)
    await later(5)
    uxplay.print(request(ANN), AGENT, '*** ERROR: Client specified timingProtocol=x', request(BOB), ', but …')
    await room.isSeen()
    await sessions.end(room.idOf('Ann'), 'x')
    t.equal(uxplay.starts, starts + 1)
    t.notMatch(uxplay.options, ANN.id)
  })
  await t.test('begins to mirror anew at that moment', async t => {
    const room = start(t, OPEN)
    const { uxplay, sessions } = room
    await room.run()
    room.connects(ANN)
    await later(5)
    uxplay.print(request(ANN))
    room.mirrors(ANN)
    await room.lists('active Ann 192.0.2.1')
    const id = room.idOf('Ann')
    uxplay.connect([ANN, { ...ANN, inode: 99, port: VIDEO }])
    await sessions.end(id, 'x')
    t.equal(uxplay.starts, 2)
    t.strictSame(room.listed(), [])
  })
})

t.test('the time to decide is over while UxPlay restarts to let the device in', async t => {
  const room = start(t, RESTRICTED)
  const { uxplay } = room
  const engine = await room.run()
  await room.asks(ANN)
  const id = room.idOf('Ann')
  let over: Promise<void> | undefined
  uxplay.restarting = () => {
    over ??= engine.end(id, 'timeout')
  }
  await engine.admit(id)
  await over
  t.strictSame(room.listed(), ['admitted Ann 192.0.2.1'])
  t.equal(uxplay.starts, 2)
  await engine.end(id, 'timeout')
  t.strictSame(room.listed(), [], 'another time')
})

t.test('after a restart of the service, a withdrawn permission interrupts nobody who plays sound', async t => {
  const room = start(t, RESTRICTED)
  const { uxplay } = room
  const engine = await room.run()
  await room.isAdmitted(ANN)
  const { starts } = uxplay
  room.connects(BOSS)
  await later(5)
  uxplay.print(request(BOSS), AGENT)
  await engine.end(room.idOf('Ann'), 'timeout')
  await room.restart()
  await room.looks()
  await room.looks()
  t.equal(uxplay.starts, starts)
  room.leave()
  await eventually(() => uxplay.starts === starts + 1)
})

t.test('UxPlay is restarted because it does not listen', async t => {
  for (const [how, ms] of [
    ['any more', 5_000],
    ['since its start', 180_000],
  ] as const)
    await t.test(how, async t => {
      const room = start(t, OPEN)
      const { uxplay } = room
      uxplay.isListening = how === 'any more'
      uxplay.connect()
      await room.run()
      await room.looks()
      uxplay.isListening = false
      uxplay.connect()
      await room.looks()
      uxplay.ahead += ms - 4_000
      await room.looks()
      t.equal(uxplay.starts, 1)
      uxplay.ahead += 4_000
      await eventually(() => uxplay.starts === 2)
    })
})

t.test(
  'a device that has connected and vanished without a word, so that UxPlay waits for it without limit',
  async t => {
    for (const how of ['is asked for a PIN', 'has no file', 'was there before the service'])
      await t.test(how, async t => {
        const room = start(t, 'pin\n')
        const { uxplay } = room
        if (how !== 'was there before the service') await room.run()
        await room.looks()
        room.connects(ANN, how !== 'has no file')
        await later(5)
        // More lines than are read at each look.
        uxplay.print(...PIN, ...Array.from({ length: 10 }, () => BUSY).flat())
        if (how === 'was there before the service') await room.run()
        // The second look begins when the first one is over.
        await eventually(() => uxplay.reads > 1)
        uxplay.ahead += 110_000
        await room.isSeen()
        t.equal(uxplay.starts, 1)
        uxplay.ahead += 11_000
        uxplay.print(...BUSY)
        await eventually(() => uxplay.starts === 2)
        t.match(room.log.at(-1), 'UxPlay was restarted, because a device had been connected for 2 minutes')
      })
    for (const how of ['plays sound', 'has paused', 'has paused, and the log no longer has its arrival'])
      await t.test(`but ${how}`, async t => {
        const room = start(t, OPEN)
        const { uxplay } = room
        room.connects(ANN)
        await later(5)
        uxplay.print(request(ANN), AGENT, ...(how === 'has paused' ? BUSY : CROWD))
        uxplay.play(how === 'plays sound')
        await room.run()
        await eventually(() => uxplay.reads > 1)
        await room.isLate()
        t.equal(uxplay.starts, 1)
      })
  },
)

t.test('a device that has come in is not put out', async t => {
  const sees: Record<string, (room: ReturnType<typeof start>) => Promise<void>> = {
    'unseen, because the journal cannot be read': async ({ uxplay, ...room }) => {
      await room.run()
      room.connects(ANN)
      await later(5)
      uxplay.print(...PIN)
      await eventually(() => room.shown() === '0007')
      uxplay.isReadable = false
      uxplay.print(request(ANN), AGENT)
    },
    'by mirroring at once': async ({ uxplay, ...room }) => {
      await room.run()
      room.connects(ANN)
      room.mirrors(ANN)
      await room.lists('active  192.0.2.1')
      uxplay.connect([ANN])
      await room.lists()
    },
    'before it plays a video of its own accord, for which UxPlay makes its file anew': async ({ uxplay, ...room }) => {
      await room.run()
      room.connects(ANN)
      await later(5)
      uxplay.print(request(ANN), AGENT)
      await room.isSeen()
      await later(2_100)
      uxplay.accept({ ...ANN, inode: 12 })
      uxplay.file(true)
      await room.isSeen()
    },
    'long after it had connected, when a stranger came who leaves': async ({ uxplay, ...room }) => {
      await room.run()
      uxplay.print(...accepted(19))
      uxplay.accept(ANN)
      await later(2_500)
      uxplay.accept(STRANGER)
      uxplay.file(true)
      await later(5)
      uxplay.print(request(ANN), AGENT)
      await room.isSeen()
      uxplay.connect([ANN])
      await room.isSeen()
    },
    'before this service started and the clock was set back': async ({ uxplay, ...room }) => {
      room.connects(ANN, false)
      uxplay.print(request(ANN), AGENT)
      await later(20)
      uxplay.file(true)
      await room.run()
      await eventually(() => uxplay.reads > 1)
    },
  }
  for (const [how, comesIn] of Object.entries(sees))
    await t.test(how, async t => {
      const room = start(t, OPEN)
      await comesIn(room)
      await room.isLate()
      t.equal(room.uxplay.starts, 1)
    })
})

t.test('a connection that says nothing occupies nothing', async t => {
  for (const isFiled of [false, true])
    await t.test(isFiled ? 'with a file' : 'without a file', async t => {
      const room = start(t, OPEN)
      const { uxplay } = room
      await room.run()
      await room.looks()
      room.connects(ANN, isFiled)
      await room.isSeen(['x'])
      uxplay.ahead += 121_000
      await room.isSeen(['x'])
      t.equal(uxplay.starts, 1)
      uxplay.print(...BUSY)
      await eventually(() => uxplay.starts === 2)
      t.pass('until UxPlay turns others away because of it')
    })
})

t.test('a device that does not come in, and connects again after it was put out, has an hour', async t => {
  for (const between of ['nothing', 'a device'])
    await t.test(`with ${between} in between`, async t => {
      const room = start(t, OPEN)
      const { uxplay } = room
      await room.run()
      await room.looks()
      const waits = async () => {
        room.connects(ANN)
        await later(5)
        uxplay.print(...PIN)
        await eventually(() => room.shown() === '0007')
      }
      await waits()
      uxplay.ahead += 121_000
      uxplay.print(...BUSY)
      await eventually(() => uxplay.starts === 2)
      if (between !== 'nothing') {
        room.connects(BOB)
        room.mirrors(BOB)
        await room.lists('active  192.0.2.2')
        room.leave()
        await room.lists()
      }
      await waits()
      if (between === 'nothing') {
        await room.isLate()
        t.equal(uxplay.starts, 2)
        uxplay.ahead += 3_600_000
      } else uxplay.ahead += 121_000
      uxplay.print(...BUSY)
      await eventually(() => uxplay.starts === 3)
    })
})

t.test('a restart that fails is tried again only after as long as before', async t => {
  const room = start(t, OPEN)
  const { uxplay } = room
  let tries = 0
  uxplay.restarting = () => {
    tries++
    throw new Error('Connection timed out')
  }
  await room.run()
  await room.looks()
  room.connects(ANN)
  await later(5)
  uxplay.print(...PIN)
  await eventually(() => room.shown() === '0007')
  await room.isLate()
  await eventually(() => tries > 0)
  // Longer than from one look to the next.
  await later(2_500)
  t.equal(tries, 1)
  t.notMatch(room.log.join('\n'), 'UxPlay was restarted')
  await room.isLate()
  await eventually(() => tries > 1)
})

t.test(
  'a UxPlay that has started for long, and is a moment behind when it first listens, is not restarted',
  async t => {
    const room = start(t, OPEN)
    const { uxplay } = room
    uxplay.isListening = false
    uxplay.connect()
    await room.run()
    await room.looks()
    uxplay.ahead += 60_000
    uxplay.isListening = true
    uxplay.backlog = 1
    uxplay.connect()
    await room.looks()
    await room.looks()
    t.equal(uxplay.starts, 1)
  },
)

t.test('a UxPlay that does not listen after a restart either is looked at less often', async t => {
  const room = start(t, OPEN)
  const { uxplay } = room
  let tries = 0
  uxplay.isListening = false
  uxplay.connect()
  uxplay.restarting = () => {
    tries++
    throw new Error('Connection timed out')
  }
  await room.run()
  await room.looks()
  uxplay.ahead += 181_000
  await eventually(() => tries === 1)
  // Longer than from one look to the next; then, as many would follow.
  await later(5_000)
  uxplay.ahead += 181_000
  await later(2_500)
  t.equal(tries, 1)
  uxplay.print('x')
  await eventually(() => tries === 2)
})

t.test("a moderator's end of a device that plays sound, and asks again as another one, is carried out", async t => {
  const room = start(t, RESTRICTED)
  const { uxplay, sessions } = room
  await room.run()
  await room.isAdmitted(ANN)
  const { starts } = uxplay
  room.connects(ANN)
  await later(5)
  uxplay.print(request(ANN), AGENT)
  await room.isSeen()
  room.isRefused(BOB)
  await eventually(() => room.listed().some(line => line.startsWith('pending Bob ')))
  await sessions.end(room.idOf('Ann'), 'x')
  t.equal(uxplay.starts, starts + 1)
  t.notMatch(uxplay.options, ANN.id)
})

t.test("a moderator's end of a device that has left puts out no other one with its address", async t => {
  const room = start(t, OPEN)
  const { uxplay } = room
  const engine = await room.run()
  room.connects(ANN)
  await later(5)
  uxplay.print(request(ANN))
  room.mirrors(ANN)
  await room.lists('active Ann 192.0.2.1')
  const id = room.idOf('Ann')
  const bob = { ...BOB, peer: ANN.peer }
  uxplay.connect()
  room.connects(bob)
  await later(5)
  uxplay.print(request(bob))
  room.mirrors(bob)
  await engine.end(id, 'moderator')
  t.strictSame(room.listed(), ['active Bob 192.0.2.1'])
  t.equal(uxplay.starts, 1)
})

t.test('a device without a file is known while UxPlay keeps the file of one that has left', async t => {
  const stays = async (t: Test, options: string) => {
    const room = start(t, options)
    await room.run()
    await room.isIdle()
    room.connects(ANN)
    await room.isSeen()
    room.uxplay.connect([STRANGER])
    await room.isSeen()
    // Longer than UxPlay takes for a file.
    await later(1_000)
    return room
  }
  await t.test('and listed if it asks', async t => {
    const room = await stays(t, RESTRICTED)
    await room.asks(BOB, false)
    await room.isSeen()
    t.strictSame(room.listed(), ['pending Bob '])
  })
  await t.test('and sees its PIN', async t => {
    const room = await stays(t, 'pin\n')
    room.connects(BOB, false)
    await later(5)
    room.uxplay.print(...PIN)
    await eventually(() => room.shown() === '0007')
  })
})

t.test(
  'after a restart of the service, a withdrawn permission ends when its device has left and a stranger stays',
  async t => {
    const room = start(t, RESTRICTED)
    const { uxplay } = room
    const engine = await room.run()
    await room.isAdmitted(ANN)
    const { starts } = uxplay
    await room.isIdle()
    room.connects(BOSS)
    await later(5)
    uxplay.print(request(BOSS), AGENT)
    uxplay.play(true)
    await room.isSeen()
    await engine.end(room.idOf('Ann'), 'timeout')
    await room.restart()
    await room.looks()
    await room.looks()
    uxplay.connect([STRANGER])
    await room.isSeen()
    t.equal(uxplay.starts, starts, 'not while sound is played')
    uxplay.play(false)
    uxplay.print(...BUSY)
    await eventually(() => uxplay.starts === starts + 1)
    t.notMatch(uxplay.options, ANN.id)
  },
)

t.test('a device that asks without a file stays listed when one leaves that connected after it', async t => {
  const room = start(t, RESTRICTED)
  const { uxplay } = room
  await room.run()
  room.connects(ANN, false)
  await room.isSeen()
  uxplay.accept(STRANGER)
  await room.isSeen()
  room.isRefused(ANN)
  await eventually(() => room.listed().length === 1)
  uxplay.connect([ANN])
  await room.isSeen()
  t.match(room.listed(), [/pending Ann/])
})
