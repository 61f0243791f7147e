import type { Test } from 'tap'
import { HalError } from '../../hal/errors.ts'
import { System } from '../../hal/os/system.ts'
import { TransactionFailed } from '../../hal/transaction/transaction.ts'
import { isObject, type JsonObject } from '../../src/json.ts'
import { type Intercept, intercepted, interceptedRun, Stopped, stopAt } from '../hal/support/file-system.ts'
import { changedPaths, leftoversIn, type Tree, treeOf } from '../hal/support/tree.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import { Devices, misfits, type Opened, openOn, runSteps, type Subject, type WritableSubject } from './subject.ts'
import type { GoodValues } from './values.ts'

const letAll: Intercept = call => call.proceed()

/** A running device: its files and programs. It keeps running when the service stops. */
class Running {
  readonly root: string
  readonly receiver: FakeReceiver
  readonly #subject: Subject

  constructor(root: string, subject: Subject) {
    this.root = root
    this.receiver = new FakeReceiver(root)
    this.#subject = subject
  }

  /** The service starts, with every system call and command shown to `intercept`. */
  start(intercept: Intercept = letAll): Opened {
    const { options } = this.receiver
    const fs = intercepted(intercept)
    const run = interceptedRun(intercept, options.run ?? (async () => ''))
    return openOn(this.#subject, new System(this.root, { ...options, fs, run }), fs)
  }

  /** Undoes the leftovers of an earlier run, as a start does. */
  async recover(intercept?: Intercept): Promise<void> {
    const { system, settings, transactions } = this.start(intercept)
    for (const setting of settings) await setting.unavailable?.()
    await system.recover(...settings.flatMap(setting => setting.files))
    await transactions.recover()
  }

  /** Changes the setting, with its calls shown to `intercept`, but not the read before them. Returns the error. */
  async change(next: unknown, intercept: Intercept = letAll, keep = true): Promise<unknown> {
    let isBegun = false
    const { setting, transactions } = this.start(call => (isBegun ? intercept(call) : call.proceed()))
    const previous = await setting.read()
    isBegun = true
    try {
      await transactions.apply([{ setting, previous, next }], keep)
      if (keep) await transactions.keep()
      return undefined
    } catch (error) {
      return error
    }
  }

  async value(): Promise<unknown> {
    return this.start().setting.read()
  }

  /** Without the kernel's own files: a write of a shorter text does not truncate them here. */
  get tree(): Tree {
    return Object.fromEntries(Object.entries(treeOf(this.root)).filter(([path]) => !path.startsWith('/proc/sys')))
  }

  get state(): State {
    return { tree: this.tree, text: this.receiver.text }
  }
}

interface State {
  readonly tree: Tree
  readonly text: string
}

const IN_USE =
  'what runs must already use the value before the next boot: is activate missing, does it not restart the unit, or does an engine not keep its approval?'

/** Rules for every writable setting on a running system: see `activate` in hal/setting.ts. */
export async function runningContract(t: Test, subject: WritableSubject): Promise<void> {
  const devices = new Devices(t)
  const [first, second] = subject.values
  const newDevice = () => new Running(devices.receiver(), subject)

  await runSteps(t, {
    'the running system is told, or need not be': async t => {
      const { setting } = newDevice().start()
      t.not(setting.activate, setting.withoutActivate, 'it has either activate or withoutActivate')
    },

    'a change is what the system uses, now and after the next boot': async t => {
      const device = newDevice()
      for (const value of [first, second, first]) {
        t.equal(await device.change(value), undefined)
        t.same(await device.value(), value)
        const { text } = device.receiver
        device.receiver.boot()
        t.equal(text, device.receiver.text, IN_USE)
        t.same(await device.value(), value, 'after a boot')
      }
    },

    'so is a change of each member by itself': async t => {
      const device = newDevice()
      for (const value of singleChanges(subject.values)) {
        await device.change(second)
        const { setting } = device.start()
        const violations = await setting.check?.(value, await setting.read())
        if (violations?.length || misfits(setting, value).length > 0) continue
        t.equal(await device.change(value), undefined)
        const { text } = device.receiver
        device.receiver.boot()
        t.equal(text, device.receiver.text, `${IN_USE} ${JSON.stringify(value)}`)
      }
    },

    'what runs is told of a change, or the setting says why it need not be': async t => {
      const device = newDevice()
      const { setting } = device.start()
      await device.change(first)
      const { text } = device.receiver
      await device.change(second)
      const isSeen = text !== device.receiver.text
      if (setting.withoutActivate === undefined)
        t.ok(
          isSeen,
          'nothing in the fake receiver uses the value: let a unit of test/fixtures/receiver name its file, and enable the unit',
        )
      else t.notOk(isSeen || setting.activate, 'without activate, nothing that runs uses the value')
    },

    'the same value again restarts nothing': async t => {
      const device = newDevice()
      for (const value of [first, second]) {
        await device.change(value)
        const { starts } = device.receiver
        t.equal(await device.change(value), undefined)
        t.equal(device.receiver.starts, starts)
      }
    },

    'a command that fails changes nothing': async t => {
      const [old, next] = await statesOf(newDevice, first)
      for (const how of ['is not installed', 'failed with status 1', 'did not end within 20 s'])
        for (const isDone of [false, true])
          for (const isLasting of [false, true]) {
            let [n, happened] = [0, true]
            while (happened) {
              happened = false
              const device = newDevice()
              let commands = 0
              n++
              const error = await device.change(first, call => {
                if (call.name !== 'run' || ++commands < n || (happened && !isLasting)) return call.proceed()
                happened = true
                return Promise.resolve(isDone && call.proceed()).then(() => {
                  throw new HalError('COMMAND_FAILED', `${call.path.split(' ')[0]} ${how}`)
                })
              })
              const when = isDone ? 'after' : 'before'
              const what = `command ${n} ${how}, ${when} it did something${isLasting ? ', and so do all after it' : ''}`
              const { tree, text } = device.state
              if (error === undefined) {
                // A setting may try another command.
                t.same([tree, text], [next.tree, next.text], what)
                continue
              }
              if (!(error instanceof TransactionFailed)) throw error
              t.match(error.cause, { message: how })
              t.same(changedPaths(old.tree, tree), [], what)
              if (isLasting && text !== old.text) t.same(error.notUndone, [subject.name], `${what}: it is named`)
              else if (!isLasting) t.same([error.notUndone, text], [[], old.text], what)
            }
          }
    },

    'after a stop at any step, the next start has all of the old or all of the new': async t => {
      const [old, next] = await statesOf(newDevice, first)
      const isEither = (device: Running, what: string) => {
        const { tree, text } = device.state
        const is = (state: State) => changedPaths(state.tree, tree).length === 0 && state.text === text
        if (!is(old) && !is(next)) t.same({ tree, text }, old, what)
        t.same(leftoversIn(device.root), [], what)
      }
      for (let [n, stopped] = [1, true]; stopped; n++) {
        const device = newDevice()
        const error = (await device.change(first, stopAt(n))) as Error | undefined
        stopped = [error, error?.cause].some(error => error instanceof Stopped)
        await device.recover()
        isEither(device, `a stop in place of step ${n}`)
      }
      // The start that undoes it may be stopped as well; then the next start undoes it.
      for (let [n, stopped] = [1, true]; stopped; n++) {
        const device = newDevice()
        await device.change(first, letAll, false)
        const error = await device.recover(stopAt(n)).catch(error => error)
        stopped = error instanceof Stopped
        await device.recover()
        isEither(device, `a stop in place of step ${n} of the undo`)
      }
    },

    'a value that could not be put back is put back by a request for it, or later': async t => {
      for (const isRefusedAgain of [false, true])
        for (const next of subject.values) {
          const device = newDevice()
          let isBroken = false
          const { setting, transactions } = device.start(call => {
            if (isBroken && call.name === 'run') throw new HalError('COMMAND_FAILED', 'failed with status 1')
            return call.proceed()
          })
          const previous = await setting.read()
          await transactions.apply([{ setting, previous, next }])
          isBroken = true
          await transactions.undo()
          // As the files have the value already, a setting could take this for no change.
          const apply = async () => transactions.apply([{ setting, previous, next: previous }], true)
          if (isRefusedAgain) await apply().catch(() => undefined)
          isBroken = false
          if (isRefusedAgain) await transactions.retry()
          else {
            await apply()
            await transactions.keep()
          }
          const { text } = device.receiver
          device.receiver.boot()
          t.equal(text, device.receiver.text, `${IN_USE} ${isRefusedAgain ? 'refused again' : 'at once'}`)
          t.same(await device.value(), previous)
        }
    },
  })
}

/** The second value with one member of the first in turn. */
function singleChanges([first, second]: GoodValues): readonly JsonObject[] {
  if (!isObject(first) || !isObject(second)) return []
  return Object.entries(first).map(([name, member]) => ({ ...second, [name]: member }))
}

/** A device before and after a change to a value. */
async function statesOf(newDevice: () => Running, value: unknown): Promise<readonly [State, State]> {
  const [was, done] = [newDevice(), newDevice()]
  await done.change(value)
  return [was.state, done.state]
}
