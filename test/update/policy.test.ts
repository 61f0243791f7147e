import type { Test } from 'tap'
import { test } from 'tap'
import type { UpdateSettings } from '../../hal/settings/update.ts'
import { Problem } from '../../src/problem.ts'
import { Policy } from '../../src/update/policy.ts'
import type { UpdateState } from '../../src/update/state.ts'
import { systemError } from '../hal/support/file-system.ts'
import { FakeTime } from '../support/fake-time.ts'

const NOON = Date.parse('2026-11-25T12:00Z')
const HOUR = 60 * 60_000

function policy(
  t: Test,
  {
    at = NOON,
    record = { text: undefined } as { text: string | undefined; tried?: string; isRefused?: boolean },
    state = {} as Partial<UpdateState>,
    random = (): number => 0.5,
    refused = [] as string[],
  } = {},
) {
  const time = new FakeTime(at)
  const done: string[] = []
  const device = {
    url: 'https://a/?b',
    /** Called while the channel is asked, and while its bundle is fetched. */
    meanwhile: async (_: 'check' | 'fetch') => undefined as unknown,
    settings: {
      channel: 'https://a/?…',
      policy: 'install',
      window: { days: [], from: '02:00', to: '04:00' },
    } as UpdateSettings,
    /** Undefined while the channel cannot be read. */
    version: '1.1.0' as string | undefined,
    state: {
      running: { version: '1.0.0', slot: 'A', state: 'good' },
      other: { state: 'empty' },
      state: 'idle',
      ...state,
    } as UpdateState,
  }
  const subject = new Policy({
    // In memory, so that no time passes.
    folder: {
      readText: async path => (path === '/checked' ? record.text : record.tried),
      writeAtomic: async (path, content) => {
        if (record.isRefused) throw systemError('ENOSPC')
        record[path === '/checked' ? 'text' : 'tried'] = `${content}`
        return true
      },
    },
    settings: () => device.settings,
    channel: {
      url: async () => device.url,
      check: async url => {
        done.push(`check ${new Date(time.now()).toISOString()}`)
        await device.meanwhile('check')
        return url === device.url ? device.version : undefined
      },
    },
    fetcher: {
      isBusy: false,
      fetch: async () => {
        done.push('fetch')
        const { version = '' } = device
        await device.meanwhile('fetch')
        if (done.at(-1) === 'cancel') return false
        device.state = { ...device.state, state: 'downloaded', bundle: { version, receivedBytes: 1, source: 'url' } }
        return true
      },
      cancel: async () => void done.push('cancel'),
    },
    update: {
      get state() {
        return device.state
      },
      install: async ({ restart, isWindowToCome }) => {
        done.push(`install ${restart}${device.settings.window.from === '' && isWindowToCome ? ' to come' : ''}`)
        const { bundle, ...rest } = device.state
        device.state = { ...rest, state: 'idle' }
      },
    },
    refused: async () => refused,
    clock: time,
    builtAt: Date.parse('2026-11-01T00:00Z'),
    random,
    log: (_, message) => done.push(message),
    wait: time.wait,
  })
  t.teardown(() => subject.stop())
  subject.start()
  return { time, done, device, record, subject }
}

test('about once a day, from within a quarter of an hour, as far as the policy says', async t => {
  const { time, done, device } = policy(t)
  await time.pass(HOUR)
  t.strictSame(done, ['check 2026-11-25T12:09:00.000Z', 'fetch', 'install window'])
  done.length = 0
  device.settings = { ...device.settings, policy: 'download' }
  await time.pass(24 * HOUR)
  t.match(done, [/^check 2026-11-26T12:[01]/, 'fetch'])
  done.length = 0
  device.settings = { ...device.settings, policy: 'check' }
  await time.pass(24 * HOUR)
  t.match(done, [/^check 2026-11-27T12:[01]/])
  done.length = 0
  device.settings = { ...device.settings, policy: 'off' }
  await time.pass(72 * HOUR)
  t.strictSame(done, [])
  t.ok(time.longest <= 60_000)
})

test('a restart of the service is no reason to ask again', async t => {
  const { time, done, record, subject } = policy(t)
  await time.pass(HOUR)
  subject.stop()
  t.equal(done.length, 3)
  const again = policy(t, { record, at: time.now() })
  await again.time.pass(23 * HOUR)
  t.strictSame(again.done, [])
  await again.time.pass(HOUR)
  t.equal(again.done.length, 3)
})

test('not before the clock is set, and one that was set back does not put it off for years', async t => {
  const { time, done } = policy(t, { at: 0 })
  await time.pass(72 * HOUR)
  t.strictSame(done, [])
  time.set(Date.parse('2036-01-01T00:00Z'))
  await time.pass(HOUR)
  t.equal(done.length, 3)
  time.set(NOON)
  await time.pass(31 * HOUR)
  t.equal(done.length, 6)
})

test('a check that was noted while the clock was ahead does not put it off, however often the device starts', async t => {
  const record = { text: '2039-01-01T00:00:00Z\n' as string | undefined }
  // It is switched off each evening.
  const first = policy(t, { record })
  await first.time.pass(HOUR)
  t.equal(first.done.length, 3)
  t.match(record.text, /^2026-11-25T12:/)
})

test('storage that refuses to note a check: it is made once a day all the same', async t => {
  const { time, done, device } = policy(t, { record: { text: '2026-11-01T00:00:00Z\n', isRefused: true } })
  device.settings = { ...device.settings, policy: 'check' }
  await time.pass(24 * HOUR)
  t.match(done, ['check 2026-11-25T12:09:00.000Z', /^update: the time of the check could not be noted: no space left/])
  t.equal(done.length, 2)
})

test('a check that is due at the start is made within a quarter of an hour, and not by all devices at once', async t => {
  const minutes = async (random: () => number, text?: string) => {
    const { time, done } = policy(t, { record: { text }, random })
    await time.pass(HOUR)
    return (Date.parse(done[0]?.slice(6) ?? '') - NOON) / 60_000
  }
  for (const text of [undefined, '2026-11-01T00:00:00Z\n']) {
    t.equal(await minutes(() => 0, text), 1, 'the network has a minute')
    t.equal(await minutes(() => 0.2, text), 4)
    t.equal(await minutes(() => 0.999, text), 16)
  }
})

test('a check that is due because the clock was set is not made by all devices at once, either', async t => {
  // A board without a battery goes on from the time at which it was switched off.
  const at = Date.parse('2026-11-25T17:00Z')
  const { time, done } = policy(t, { at, record: { text: '2026-11-25T08:00:00Z\n' } })
  await time.pass(90_000)
  time.set(Date.parse('2026-11-26T14:00Z'))
  await time.pass(HOUR)
  t.equal(done[0], 'check 2026-11-26T14:08:30.000Z')
})

test('a channel that cannot be read is asked again, less and less often, and by no other device at the same time', async t => {
  const after = async (random: () => number) => {
    const { time, done, device, record } = policy(t, { random })
    device.version = undefined
    await time.pass(70 * HOUR)
    t.equal(record.text, undefined)
    const times = done.map(line => Date.parse(line.slice(6)) / 60_000)
    return { time, done, device, record, pauses: times.slice(1).map((at, n) => Math.round(at - (times[n] ?? 0))) }
  }
  const day = 24 * 60
  t.strictSame((await after(() => 0)).pauses.slice(0, 8), [10, 20, 40, 80, 160, 320, 640, 0.75 * day])
  t.strictSame((await after(() => 1)).pauses.slice(0, 6), [60, 120, 240, 480, 960, 1.25 * day])
  const { time, done, device, record } = await after(() => 0.5)
  device.version = '1.1.0'
  done.length = 0
  await time.pass(24 * HOUR)
  t.match(done, [/^check/, 'fetch', 'install window'])
  t.match(record.text, /^2026-11-/)
  device.version = undefined
  done.length = 0
  await time.pass(25 * HOUR)
  t.ok(done.length > 1, 'soon again, after one that succeeded')
})

test('a device that is on for an hour a day is updated, also if its network takes minutes', async t => {
  const record = { text: '2026-11-01T00:00:00Z\n' as string | undefined }
  const parts = [0.01, 0.4, 0.8, 0.1, 0.6]
  const random = () => {
    const [part = 0] = parts.splice(0, 1)
    parts.push(part)
    return part
  }
  let updated = 0
  for (let day = 0; day < 10; day++) {
    const at = NOON + day * 24 * HOUR
    const { time, done, device, subject } = policy(t, { at, record, random })
    device.version = undefined
    await time.pass(5 * 60_000)
    device.version = `1.1.${day}`
    await time.pass(55 * 60_000)
    subject.stop()
    if (done.at(-1) === 'install window') updated++
  }
  t.ok(updated >= 4, `${updated}`)
})

test('a policy that cannot be followed says why', async t => {
  const { time, done, device } = policy(t)
  device.meanwhile = () => Promise.reject(new Problem('conflict', 'A bundle is being received.'))
  await time.pass(HOUR)
  t.match(done, [/^check/, 'update: the policy could not be followed: A bundle is being received.'])
})

test('without a window, the restart waits for one to be set', async t => {
  const { time, done, device } = policy(t)
  device.settings = { ...device.settings, window: { days: [], from: '', to: '' } }
  await time.pass(HOUR)
  t.equal(done.at(-1), 'install window to come')
})

test('a bundle that is not wanted is not fetched', async t => {
  const cases: readonly (readonly [what: string, state: Partial<UpdateState>])[] = [
    ['what runs', { running: { version: '1.1.0', slot: 'A', state: 'good' } }],
    ['an older one', { running: { version: '1.2.0', slot: 'A', state: 'good' } }],
    ['one that was rolled back', { last: { version: '1.1.0', outcome: 'rolled back' } }],
    [
      'one that was installed, and whose image has another version',
      { last: { version: '1.1.0', outcome: 'installed' } },
    ],
    ['one that is installed', { other: { version: '1.1.0', state: 'good' } }],
    ['any, while this one is on trial', { running: { version: '1.0.0', slot: 'A', state: 'trial' } }],
    ['any, while another is installed', { state: 'installed' }],
  ]
  for (const [what, state] of cases) {
    const { time, done } = policy(t, { state })
    await time.pass(HOUR)
    t.equal(done.length, 1, what)
  }
  const again = policy(t, { refused: ['1.1.0'], state: { last: { version: '1.2.0', outcome: 'failed' } } })
  await again.time.pass(HOUR)
  t.equal(again.done.length, 1, 'one that was rolled back before another one failed')

  const bundle = { version: '1.1.0', receivedBytes: 1, source: 'upload' } as const
  const { time, done } = policy(t, { state: { state: 'downloaded', bundle } })
  await time.pass(HOUR)
  t.match(done, [/^check/, 'install window'], 'one that is there is not fetched again')
})

test('a version that cannot be installed is tried again less and less often', async t => {
  const bundle = { version: '1.1.0', receivedBytes: 1, source: 'url' } as const
  const last = { version: '1.1.0', outcome: 'failed' } as const
  const first = policy(t)
  // The bundle of a failed installation is kept, unless it is damaged.
  const failing = (device: typeof first.device) => {
    device.meanwhile = async now => {
      if (now === 'check' && device.state.last) device.state = { ...device.state, state: 'failed', bundle, last }
      else device.state = { ...device.state, last }
    }
  }
  failing(first.device)
  await first.time.pass(70 * 24 * HOUR)
  t.equal(first.done.filter(line => line === 'fetch').length, 1, 'it is fetched once')
  const installs = (done: readonly string[]) => done.filter(line => line === 'install window').length
  t.equal(installs(first.done), 6, 'after 1, 3, 6, 12 and 24 days')
  t.ok(first.done.length > 60, 'the channel is read every day')

  first.subject.stop()
  const restarted = policy(t, { at: first.time.now(), record: first.record, state: { state: 'failed', bundle, last } })
  await restarted.time.pass(24 * HOUR)
  t.equal(installs(restarted.done), 0, 'also after a restart')
  restarted.device.version = '1.2.0'
  restarted.device.state = { ...restarted.device.state, state: 'idle' }
  await restarted.time.pass(24 * HOUR)
  t.equal(installs(restarted.done), 1, 'another version is tried at once')

  const refused = policy(t)
  const error = { type: 'urn:receiverd:problem:bundle-signature', detail: 'It is refused.' }
  refused.device.meanwhile = async now => {
    if (now === 'check') return
    refused.done.push('cancel')
    refused.device.state = { ...refused.device.state, state: 'failed', error }
  }
  await refused.time.pass(70 * 24 * HOUR)
  t.equal(refused.done.filter(line => line === 'fetch').length, 6, 'nor is a bundle fetched every day that is refused')

  const offline = policy(t)
  offline.device.meanwhile = async now => now === 'fetch' && offline.done.push('cancel')
  await offline.time.pass(10 * 24 * HOUR)
  t.ok(offline.done.filter(line => line === 'fetch').length >= 8, 'a download that breaks off is tried every day')
})

test('another channel is set meanwhile: it is asked in place of the one before, of which nothing is installed', async t => {
  for (const moment of ['check', 'fetch'] as const) {
    const { time, done, device, subject } = policy(t)
    device.meanwhile = async now => {
      if (now !== moment) return
      device.meanwhile = async () => undefined
      device.url = 'https://c/'
      await subject.reconsider()
    }
    await time.pass(HOUR)
    const first = moment === 'check' ? [/^check/] : [/^check/, 'fetch', 'cancel']
    t.match(done, [...first, /^check/, 'fetch', 'install window'], moment)
    t.equal(done.length, first.length + 3)
  }
})

test('the bundle that came is no other than was wanted, by a policy that still holds', async t => {
  const { time, done, device } = policy(t)
  device.meanwhile = async () => {
    device.settings = { ...device.settings, policy: 'download' }
  }
  await time.pass(HOUR)
  t.match(done, [/^check/])
  t.equal(done.at(-1), 'fetch')

  const moved = policy(t, { state: { last: { version: '1.2.0', outcome: 'rolled back' } } })
  moved.device.meanwhile = async now => {
    if (now === 'check') return
    moved.device.state = { ...moved.device.state, last: { version: '1.1.0', outcome: 'rolled back' } }
  }
  await moved.time.pass(HOUR)
  t.equal(moved.done.at(-1), 'fetch', 'a version that was rolled back is not installed')

  const refused: string[] = []
  const discarded = policy(t, { refused })
  discarded.device.meanwhile = async now => void (now === 'fetch' && refused.push('1.1.0'))
  await discarded.time.pass(HOUR)
  t.equal(discarded.done.at(-1), 'fetch', 'nor one that was discarded')
})
