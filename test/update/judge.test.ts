/** The judgement of a version on trial: its verdict, its time, and each moment at which the power can fail. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HalError } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import type { Look } from '../../src/update/checks.ts'
import { type JudgeOptions, judge, STEADY_MS, TRIAL_MS } from '../../src/update/judge.ts'
import { type Trial, TrialRecords } from '../../src/update/trial.ts'
import { type Call, type Intercept, intercepted, Stopped, stopAt, systemError } from '../hal/support/file-system.ts'
import { IN_MEMORY, temporaryFolder } from '../support/folder.ts'

const NOW = Date.parse('2026-11-25T08:00:00Z')
const TRIAL: Trial = {
  slot: 'B',
  version: '1.1.0',
  from: '1.0.0',
  at: '2026-11-25T07:00:00Z',
  expect: { units: ['receiverd.service'], screen: true, interfaces: ['eth0'] },
}
const INSTALLED = { version: '1.1.0', outcome: 'installed', at: '2026-11-25T08:00:00Z' }
const BROKEN = new HalError('COMMAND_FAILED', 'busctl failed with status 1')

/** A device with two slots, and the result of each look, by the seconds since its start. */
class Device {
  readonly folder: string
  booted = 'B'
  /** How often RAUC has marked each slot. */
  readonly marks: string[] = []
  readonly log: string[] = []
  seconds = 0
  sees: (second: number) => Partial<Look> & { readonly runsOf?: string } = () => ({})
  rauc: Error | undefined
  #looks = 0

  constructor(t: Test) {
    this.folder = temporaryFolder(t, IN_MEMORY)
  }

  get records(): TrialRecords {
    return new TrialRecords(new Files(this.folder))
  }

  get looks(): number {
    return this.#looks
  }

  /** The content of a record. */
  read(name: string): unknown {
    const path = join(this.folder, `${name}.json`)
    return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined
  }

  /** @param intercept Shown each system call that changes something, and each mark. */
  judge(intercept?: Intercept, more: Partial<JudgeOptions> = {}): Promise<boolean> {
    const shown: Intercept = intercept ?? (call => call.proceed())
    const began = this.seconds
    return judge({
      records: new TrialRecords(new Files(this.folder, intercept ? intercepted(intercept) : undefined)),
      rauc: {
        status: async () => {
          if (this.rauc) throw this.rauc
          return { bootSlot: this.booted }
        },
        mark: async (state, slot) => {
          if (this.rauc) throw this.rauc
          const proceed = () => this.marks.push(`${slot} ${state}`)
          shown({ name: 'run', path: `${state} ${slot}`, changes: true, proceed, tear: () => undefined })
        },
      },
      look: async () => {
        this.#looks++
        const { wanting = [], runs = new Map([['receiverd.service', '1']]) } = this.sees(this.seconds - began)
        return { wanting, runs }
      },
      pace: {
        now: () => this.seconds * 1000,
        wait: async ms => {
          this.seconds += ms / 1000
        },
      },
      clock: { now: () => NOW },
      builtAt: 0,
      log: (level, message) => this.log.push(`${level}: ${message}`),
      ...more,
    })
  }
}

t.test('a version that does what worked before is good', async t => {
  const device = new Device(t)
  await device.records.begin(TRIAL)
  const late = { wanting: ['receiverd does not answer', 'there is no address'] }
  device.sees = second => (second < 30 ? late : second < 60 ? { wanting: ['there is no address'] } : {})
  t.equal(await device.judge(), true)
  t.strictSame(device.marks, ['B good'])
  t.ok(device.seconds >= 60 + STEADY_MS / 1000 && device.seconds < 80, `after ${device.seconds} s`)
  t.equal(device.read('trial'), undefined)
  t.strictSame(device.read('last'), INSTALLED)
  t.strictSame(device.log, [
    'info: version 1.1.0 is on trial: receiverd does not answer; there is no address',
    'info: version 1.1.0 is on trial: there is no address',
    'notice: version 1.1.0 is good',
  ])
})

t.test('a version that somebody went back to is good: the outcome is that the other one was left', async t => {
  const device = new Device(t)
  const left = { version: '1.0.0', outcome: 'rolled back', reason: 'asked for', at: '2026-11-25T07:00:00Z' }
  // The power was cut before the version that was left had recorded that.
  await device.records.begin({ ...TRIAL, isReturn: true })
  t.equal(await device.judge(), true)
  t.strictSame(device.marks, ['B good'])
  t.equal(device.read('trial'), undefined)
  t.strictSame(device.read('last'), left)
  t.strictSame(await device.records.refused(), ['1.0.0'])
})

t.test('a version that does not is on record, and goes', async t => {
  const device = new Device(t)
  await device.records.begin(TRIAL)
  device.sees = () => ({ wanting: ['weston does not draw'] })
  t.equal(await device.judge(), false)
  t.strictSame(device.marks, [])
  t.ok(device.seconds * 1000 >= TRIAL_MS && device.seconds <= 285, 'before the unit is killed')
  t.strictSame(device.read('trial'), TRIAL, 'it has another attempt')
  t.strictSame(device.read('verdict'), {
    slot: 'B',
    version: '1.1.0',
    reason: 'weston does not draw',
    at: '2026-11-25T08:00:00Z',
  })
  t.equal(device.log.at(-1), 'error: version 1.1.0 is not good: weston does not draw; the device restarts')
  device.sees = () => ({})
  t.equal(await device.judge(), true, 'the second attempt succeeds')
  t.equal(device.read('verdict'), undefined)
})

t.test('a look that fails takes no reason away', async t => {
  const device = new Device(t)
  await device.records.begin(TRIAL)
  device.sees = second => {
    if (second % 9 === 0) throw new HalError('COMMAND_FAILED', 'systemctl failed with status 1')
    return { wanting: ['nginx does not answer by TLS'] }
  }
  t.equal(await device.judge(), false)
  t.match(device.read('verdict'), { reason: 'nginx does not answer by TLS; systemctl failed with status 1' })

  device.seconds = 0
  device.log.length = 0
  device.sees = second => {
    if (second < 30) return { wanting: ['nginx does not answer by TLS'] }
    if (second < 60) return {}
    throw new HalError('COMMAND_FAILED', 'systemctl failed with status 1')
  }
  device.rauc = BROKEN
  t.equal(await device.judge(), false)
  t.match(device.read('verdict'), { reason: 'systemctl failed with status 1' }, 'a part that works by now is no reason')
})

t.test('a unit that keeps crashing is not good, although each look finds all well', async t => {
  const device = new Device(t)
  await device.records.begin(TRIAL)
  device.sees = second => ({ runs: new Map([['uxplay.service', `${Math.floor(second / 8)}`]]) })
  t.equal(await device.judge(), false)
  t.match(device.read('verdict'), { reason: 'uxplay.service was started again' })
})

t.test('a version that fails for a moment must be well for as long again', async t => {
  const device = new Device(t)
  await device.records.begin(TRIAL)
  device.sees = second => (second === 9 ? { wanting: ['UxPlay does not listen'] } : {})
  t.equal(await device.judge(), true)
  t.ok(device.seconds >= 12 + STEADY_MS / 1000)
})

t.test('without a trial, nothing is asked: a good version with a bad setting stays', async t => {
  const device = new Device(t)
  device.sees = () => ({ wanting: ['UxPlay does not listen'] })
  t.equal(await device.judge(), true)
  await device.records.begin(TRIAL)
  device.booted = 'A'
  t.equal(await device.judge(), true, 'nor in the system that was gone back to')
  t.strictSame(device.marks, ['B good', 'A good'], 'their attempts are counted anew')
  t.equal(device.looks, 0)
  t.strictSame(device.read('trial'), TRIAL, 'which says itself what became of the trial')
  device.rauc = BROKEN
  await device.records.conclude({ version: '1.1.0', outcome: 'rolled back' })
  await t.rejects(device.judge(), BROKEN)
})

t.test('RAUC must answer in time, too', async t => {
  const device = new Device(t)
  await device.records.begin(TRIAL)
  device.rauc = BROKEN
  device.sees = second => {
    if (second > 60) device.rauc = undefined
    return {}
  }
  t.equal(await device.judge(), true)
  t.strictSame(device.marks, ['B good'])
  await device.records.begin(TRIAL)
  device.rauc = BROKEN
  device.sees = () => ({})
  t.equal(await device.judge(), false)
  t.match(device.read('verdict'), { reason: 'busctl failed with status 1' })
})

t.test('a record that cannot be read is no reason to stay', async t => {
  for (const text of ['', 'null', '{"slot":"B"}', '{"slot":"B","version":"1.1.0","from":"1.0.0"}']) {
    const device = new Device(t)
    await new Files(device.folder).writeAtomic('/trial.json', text)
    await t.rejects(device.judge(), { code: 'UNREADABLE' }, text)
    t.strictSame(device.marks, [])
  }
})

t.test('members that a later version writes are no reason to go', async t => {
  const device = new Device(t)
  const later = { ...TRIAL, other: 1, expect: { ...TRIAL.expect, other: [] } }
  await new Files(device.folder).writeAtomic('/trial.json', JSON.stringify(later))
  t.equal(await device.judge(), true)
})

t.test('a verdict that cannot be written does not keep a bad version', async t => {
  const device = new Device(t)
  await device.records.begin(TRIAL)
  device.sees = () => ({ wanting: ['UxPlay does not listen'] })
  const refused = (call: Call) => {
    throw systemError(call.name === 'run' ? 'EIO' : 'EROFS')
  }
  t.equal(await device.judge(refused), false)
  t.match(device.log.at(-1), /^error: the verdict could not be written: .*EROFS/)
})

t.test('without a clock, nothing is dated', async t => {
  const device = new Device(t)
  await device.records.begin(TRIAL)
  t.equal(await device.judge(undefined, { builtAt: NOW + 1 }), true)
  t.strictSame(device.read('last'), { version: '1.1.0', outcome: 'installed' })
})

t.test('a record that cannot be closed does not restart a good version', async t => {
  const device = new Device(t)
  await device.records.begin(TRIAL)
  const full = (call: Call) => {
    if (device.marks.length > 0) throw systemError('ENOSPC')
    return call.proceed()
  }
  t.equal(await device.judge(full), true)
  t.match(device.log, [
    'warning: the record of the trial cannot be closed: no space left on device (ENOSPC)',
    /is good/,
  ])
  t.strictSame(device.read('trial'), { ...TRIAL, isGood: true }, 'the next start closes it')
})

t.test('a full disk neither condemns a good version nor keeps a bad one', async t => {
  const full = (call: Call) => {
    if (call.name === 'file.write') throw systemError('ENOSPC')
    return call.proceed()
  }
  const good = new Device(t)
  await good.records.begin(TRIAL)
  t.equal(await good.judge(full), true)
  t.strictSame(good.marks, ['B good'])
  t.equal(good.read('trial'), undefined, 'it is not judged again')
  t.match(good.log, [/^warning: the good verdict could not be recorded: no space left/, /cannot be closed/, /is good/])
  const bad = new Device(t)
  await bad.records.begin(TRIAL)
  bad.sees = () => ({ wanting: ['UxPlay does not listen'] })
  t.equal(await bad.judge(full), false, 'the unit restarts the device')
  t.strictSame(bad.marks, [])
  t.strictSame(bad.read('trial'), TRIAL, 'a later attempt is judged, too')
})

t.test('the power fails at each moment', async t => {
  for (let n = 1; ; n++) {
    const device = new Device(t)
    await device.records.begin(TRIAL)
    let isCut = false
    const stop = stopAt(n)
    await device.judge(call => {
      try {
        return stop(call)
      } catch (error) {
        isCut ||= error instanceof Stopped
        throw error
      }
    })
    if (!isCut) {
      t.ok(n > 15, `${n - 1} moments`)
      break
    }
    const trial = device.read('trial') as Trial | undefined
    const isMarked = device.marks.length > 0
    t.ok(trial?.isGood || trial === undefined || !isMarked, `${n}: it is on record as good before it is marked`)
    if (trial === undefined || device.read('last') !== undefined) t.ok(isMarked, `${n}: nobody was told too early`)
    if (trial === undefined) t.strictSame(device.read('last'), INSTALLED)

    // The next start. A good version is not judged again: it may have a bad setting by now.
    const looks = device.looks
    const isFound = trial === undefined || trial.isGood === true
    if (isFound) device.sees = () => ({ wanting: ['UxPlay does not listen'] })
    t.equal(await device.judge(), true, `${n}: it stays`)
    if (isFound) t.equal(device.looks, looks)
    t.strictSame([device.read('trial'), device.read('last')], [undefined, INSTALLED])
  }
})
