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
    record = { text: undefined } as { text: string | undefined; isRefused?: boolean },
    state = {} as Partial<UpdateState>,
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
    version: '1.1.0',
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
      readText: async () => record.text,
      writeAtomic: async (_, content) => {
        if (record.isRefused) throw systemError('ENOSPC')
        record.text = `${content}`
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
        const { version } = device
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
      install: async ({ restart }) => {
        done.push(`install ${restart}`)
        const { bundle, ...rest } = device.state
        device.state = { ...rest, state: 'idle' }
      },
    },
    clock: time,
    builtAt: Date.parse('2026-11-01T00:00Z'),
    random: () => 0.5,
    log: (_, message) => done.push(message),
    wait: time.wait,
  })
  t.teardown(() => subject.stop())
  subject.start()
  return { time, done, device, record, subject }
}

test('about once a day, from within an hour, as far as the policy says', async t => {
  const { time, done, device } = policy(t)
  await time.pass(HOUR)
  t.strictSame(done, ['check 2026-11-25T12:31:00.000Z', 'fetch', 'install window'])
  done.length = 0
  device.settings = { ...device.settings, policy: 'download' }
  await time.pass(24 * HOUR)
  t.match(done, [/^check 2026-11-26T12:3/, 'fetch'])
  done.length = 0
  device.settings = { ...device.settings, policy: 'check' }
  await time.pass(24 * HOUR)
  t.match(done, [/^check 2026-11-27T12:3/])
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
  t.match(done, [/^update: the time of the check could not be noted: no space left/, 'check 2026-11-25T12:01:00.000Z'])
  t.equal(done.length, 2)
})

test('a policy that cannot be followed says why', async t => {
  const { time, done, device } = policy(t)
  device.meanwhile = () => Promise.reject(new Problem('conflict', 'A bundle is being received.'))
  await time.pass(HOUR)
  t.match(done, [/^check/, 'update: the policy could not be followed: A bundle is being received.'])
})

test('without a window, the restart is left to a person', async t => {
  const { time, done, device } = policy(t)
  device.settings = { ...device.settings, window: { days: [], from: '', to: '' } }
  await time.pass(HOUR)
  t.equal(done.at(-1), 'install manual')
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
  const bundle = { version: '1.1.0', receivedBytes: 1, source: 'upload' } as const
  const { time, done } = policy(t, { state: { state: 'downloaded', bundle } })
  await time.pass(HOUR)
  t.match(done, [/^check/, 'install window'], 'one that is there is not fetched again')
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
})
