import { test } from 'tap'
import type { UpdateWindow } from '../../hal/settings/update.ts'
import { type RestartOptions, Restarts } from '../../src/update/restart.ts'
import { FakeTime } from '../support/fake-time.ts'

const WINDOW: UpdateWindow = { days: [], from: '02:00', to: '04:00' }
const NOON = Date.parse('2026-11-25T12:00Z')
const MINUTE = 60_000

function restarts(options: Partial<RestartOptions> & { readonly at?: number } = {}) {
  const time = new FakeTime(options.at ?? NOON)
  const device = {
    window: WINDOW,
    sessions: 0,
    timeZone: 'UTC',
    refuses: false,
    isConnected: true,
    restartedAt: [] as string[],
  }
  const told: unknown[] = []
  const log: string[] = []
  const subject = new Restarts({
    clock: time,
    wait: time.wait,
    builtAt: Date.parse('2026-11-01T00:00Z'),
    random: () => 0.5,
    window: () => device.window,
    timeZone: () => device.timeZone,
    sessions: () => device.sessions,
    isConnected: async () => device.isConnected,
    reboot: async () => {
      if (device.refuses) throw new Error('refused')
      device.restartedAt.push(new Date(time.now()).toISOString())
    },
    log: (_, message) => log.push(message),
    ...options,
  })
  const start = () => subject.restart('window', hindrance => told.push(hindrance))
  return { subject, time, device, told, log, start }
}

test('it waits for the window, and for a random part of ten minutes', async t => {
  const { time, device, told, start } = restarts()
  await start()
  t.strictSame(told, ['window'])
  await time.pass(14 * 60 * MINUTE)
  t.strictSame(device.restartedAt, [], 'not when the window opens')
  await time.pass(10 * MINUTE)
  t.strictSame(device.restartedAt, ['2026-11-26T02:05:00.000Z'])
  t.strictSame(told, ['window', undefined])
  await time.pass(48 * 60 * MINUTE)
  t.equal(device.restartedAt.length, 1)
})

test('at once waits for nothing, and says if the system refuses', async t => {
  const { subject, device } = restarts({ at: 0 })
  device.sessions = 1
  await subject.restart('now', () => t.fail('it waits'))
  t.equal(device.restartedAt.length, 1)
  device.refuses = true
  await t.rejects(subject.restart('now', () => t.fail('it waits')))
})

test('sessions hold it up, also those that begin in the random time', async t => {
  const { subject, time, device, told, start } = restarts({ at: Date.parse('2026-11-26T02:30Z') })
  await start()
  await time.pass(4 * MINUTE)
  device.sessions = 1
  subject.reconsider()
  await time.pass(30 * MINUTE)
  t.strictSame([device.restartedAt, told], [[], ['window', 'sessions']])
  device.sessions = 0
  subject.reconsider()
  await time.pass(10 * MINUTE)
  t.strictSame(device.restartedAt, ['2026-11-26T03:09:00.000Z'])
})

test('a network that is away holds it up, and so does the window if it closes meanwhile', async t => {
  const { time, device, told, start } = restarts({ at: Date.parse('2026-11-26T02:30Z') })
  device.isConnected = false
  await start()
  await time.pass(20 * MINUTE)
  t.strictSame([device.restartedAt, told], [[], ['window', 'network']])
  await time.pass(2 * 60 * MINUTE)
  t.strictSame([device.restartedAt, told], [[], ['window', 'network', 'window']])
  await time.pass(21 * 60 * MINUTE + 30 * MINUTE)
  device.isConnected = true
  await time.pass(10 * MINUTE)
  t.strictSame(device.restartedAt.length, 1, `${device.restartedAt}`)
  t.strictSame(told, ['window', 'network', 'window', 'network', 'window', undefined])
})

test('a network that cannot be examined does not hold it up', async t => {
  const { device, time, start } = restarts({
    at: Date.parse('2026-11-26T02:30Z'),
    isConnected: async () => {
      throw new Error('no answer')
    },
  })
  await start()
  await time.pass(10 * MINUTE)
  t.equal(device.restartedAt.length, 1)
})

test('when the network comes back, it waits for a random time again', async t => {
  const { time, device, told, start } = restarts({ at: Date.parse('2026-11-26T02:30Z') })
  device.isConnected = false
  await start()
  await time.pass(40 * MINUTE)
  device.isConnected = true
  await time.pass(4 * MINUTE)
  t.strictSame(device.restartedAt, [])
  await time.pass(4 * MINUTE)
  t.strictSame([device.restartedAt, told], [['2026-11-26T03:16:00.000Z'], ['window', 'network', 'window', undefined]])
})

for (const [what, change] of [
  ['a session', { sessions: 1 }],
  ['another window', { window: { days: [], from: '12:00', to: '13:00' } }],
] as const)
  test(`${what} that comes while the network is examined still holds it up`, async t => {
    let answer: (isConnected: boolean) => void = () => undefined
    const { subject, device, time, start } = restarts({
      at: Date.parse('2026-11-26T02:30Z'),
      random: () => 0,
      isConnected: () =>
        new Promise(resolve => {
          answer = resolve
        }),
    })
    await start()
    Object.assign(device, change)
    subject.reconsider()
    answer(true)
    await time.pass(30 * MINUTE)
    t.strictSame(device.restartedAt, [])
  })

test('looks while the system restarts do not restart it again', async t => {
  let asked = 0
  const { subject, time, start } = restarts({
    at: Date.parse('2026-11-26T02:30Z'),
    random: () => 0,
    reboot: () => {
      asked++
      return new Promise(() => undefined)
    },
  })
  await start()
  await time.pass(0)
  subject.reconsider()
  await time.pass(10 * MINUTE)
  t.equal(asked, 1)
})

test('a restart that is canceled while the network is examined does not begin', async t => {
  const { subject, device, time, start } = restarts({
    at: Date.parse('2026-11-26T02:30Z'),
    isConnected: async () => {
      subject.cancel()
      return true
    },
  })
  await start()
  await time.pass(60 * MINUTE)
  t.strictSame(device.restartedAt, [])
})

test('sessions that last until the window has closed hold it up until the next', async t => {
  const { subject, time, device, told, start } = restarts({ at: Date.parse('2026-11-26T03:50Z') })
  device.sessions = 2
  await start()
  await time.pass(20 * MINUTE)
  device.sessions = 0
  subject.reconsider()
  await time.pass(30 * MINUTE)
  t.strictSame([device.restartedAt, told], [[], ['sessions', 'window']])
  await time.pass(24 * 60 * MINUTE)
  t.strictSame(device.restartedAt, ['2026-11-27T02:05:00.000Z'])
})

test('the random time fits into what is left of the window', async t => {
  const { time, device, start } = restarts({ at: Date.parse('2026-11-26T03:58Z'), random: () => 0.999 })
  await start()
  await time.pass(2 * MINUTE)
  t.match(device.restartedAt, [/^2026-11-26T03:59:59/])
})

test('a clock that is not set holds it up, also if it seems to be in the window', async t => {
  const { time, device, told, start } = restarts({ at: Date.parse('2020-01-01T02:30Z') })
  await start()
  await time.pass(60 * MINUTE)
  t.strictSame([device.restartedAt, told], [[], ['clock']])
  time.set(Date.parse('2026-11-26T03:00Z'))
  await time.pass(7 * MINUTE)
  t.equal(device.restartedAt.length, 1, 'noticed within a minute')
  t.strictSame(told, ['clock', 'window', undefined])
})

test('a clock that is set back in the random time does not put it off by more than that', async t => {
  const { time, device, start } = restarts({ at: Date.parse('2026-11-26T03:30Z') })
  await start()
  await time.pass(4 * MINUTE)
  time.set(Date.parse('2026-11-26T02:30Z'))
  await time.pass(7 * MINUTE)
  t.equal(device.restartedAt.length, 1)
})

test('a new window, another time zone, and no window at all', async t => {
  const { subject, time, device, told, start } = restarts()
  await start()
  device.window = { days: [], from: '', to: '' }
  subject.reconsider()
  t.equal(subject.hasWindow, false)
  await time.pass(48 * 60 * MINUTE)
  t.strictSame([device.restartedAt, told], [[], ['window', 'manual']])
  device.window = { days: [], from: '21:00', to: '22:00' }
  device.timeZone = 'Asia/Tokyo'
  subject.reconsider()
  await time.pass(10 * MINUTE)
  t.strictSame(device.restartedAt, ['2026-11-27T12:05:00.000Z'])
})

test('as long as no window is set, it is left to a person, whatever else is in the way', async t => {
  const { subject, time, device, told, start } = restarts({ at: Date.parse('2020-01-01T02:30Z') })
  Object.assign(device, { window: { days: [], from: '', to: '' }, sessions: 1, isConnected: false })
  await start()
  await time.pass(10 * MINUTE)
  time.set(NOON)
  await time.pass(48 * 60 * MINUTE)
  t.strictSame([device.restartedAt, told], [[], ['manual']])
  Object.assign(device, { window: WINDOW, sessions: 0, isConnected: true })
  subject.reconsider()
  t.strictSame(told, ['manual', 'window'])
  await time.pass(15 * 60 * MINUTE)
  t.equal(device.restartedAt.length, 1)
  t.strictSame(told, ['manual', 'window', undefined])
})

test('a restart by the system that is refused is tried again each minute', async t => {
  const { time, device, told, log, start } = restarts({ at: Date.parse('2026-11-26T02:30Z'), random: () => 0 })
  device.refuses = true
  await start()
  await time.pass(3 * MINUTE)
  t.ok(log.length >= 3)
  device.refuses = false
  await time.pass(2 * MINUTE)
  t.equal(device.restartedAt.length, 1)
  t.equal(told.at(-1), undefined)
})

test('a restart that was cancelled does not come', async t => {
  const { subject, time, device, start } = restarts({ at: Date.parse('2026-11-26T02:30Z') })
  await start()
  await start()
  subject.cancel()
  subject.reconsider()
  await time.pass(48 * 60 * MINUTE)
  t.strictSame(device.restartedAt, [])
})

test('no timer is longer than a minute: one of over 24.8 days fires at once', async t => {
  const { time, start } = restarts({ at: Date.parse('2026-11-26T02:30Z') })
  await start()
  t.ok(time.longest <= MINUTE)
})
