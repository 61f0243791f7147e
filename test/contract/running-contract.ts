import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { HalError } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { TransactionFailed, Transactions } from '../../hal/transaction/transaction.ts'
import { type Intercept, intercepted, interceptedRun, Stopped, stopAt } from '../hal/support/file-system.ts'
import { changedPaths, copierOf, leftoversIn, type Tree, treeOf } from '../hal/support/tree.ts'
import { deviceRoot } from '../support/device.ts'
import { FakeReceiver } from '../support/fakes/receiver.ts'
import type { GoodValues } from './setting-contract.ts'

const letAll: Intercept = call => call.proceed()

/** A device that runs: its files, and what took them up. It stays where the service stops. */
class Running {
  readonly root: string
  readonly receiver: FakeReceiver

  constructor(root: string) {
    this.root = root
    this.receiver = new FakeReceiver(root)
  }

  /** The service begins, with every call and command shown to `intercept`. */
  async start(name: string, intercept: Intercept = letAll) {
    const { options } = this.receiver
    const fs = intercepted(intercept)
    const run = interceptedRun(intercept, options.run ?? (async () => ''))
    const system = new System(this.root, { ...options, fs, run })
    const settings = registry(system)
    const setting = settings.find(setting => setting.name === name)
    if (!setting) throw new Error(`no setting ${name}`)
    const transactions = new Transactions(system, settings, new Journal(new Files(`${this.root}.state`, fs)))
    return { system, settings, setting, transactions }
  }

  /** Undoes what an earlier run left, as a start does. */
  async recover(name: string, intercept?: Intercept): Promise<void> {
    const { system, settings, transactions } = await this.start(name, intercept)
    for (const setting of settings) await setting.unavailable?.()
    for (const path of new Set(settings.flatMap(setting => setting.files))) await system.recover(path)
    await transactions.recover()
  }

  /** Changes a setting; `intercept` is shown what it takes, not the reading before it. */
  async change(name: string, next: unknown, intercept: Intercept, keep = true): Promise<unknown> {
    let isBegun = false
    const { setting, transactions } = await this.start(name, call => (isBegun ? intercept(call) : call.proceed()))
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

  async value(name: string): Promise<unknown> {
    return (await this.start(name)).setting.read()
  }

  /** Without the kernel's own files: a text that is shorter than the one before leaves the end of that. */
  get tree(): Tree {
    return Object.fromEntries(Object.entries(treeOf(this.root)).filter(([path]) => !path.startsWith('/proc/sys')))
  }
}

/** What every setting that can be written does on the system that runs: see `activate` of hal/setting.ts. */
export async function runningContract(t: Test, name: string, [first, second]: GoodValues): Promise<void> {
  const copyDevice = copierOf(deviceRoot(t))
  // Thousands of small files: in memory where there is such a place.
  const folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'receiverd-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  let devices = 0
  const newDevice = () => {
    const root = join(folder, `${devices++}`)
    mkdirSync(root)
    copyDevice(root)
    return new Running(root)
  }
  const was = newDevice()
  const done = newDevice()
  t.equal(await done.change(name, first, letAll), undefined)
  const [old, next] = [was, done].map(({ tree, receiver }) => ({ tree, text: receiver.text })) as [State, State]

  await t.test('a change is what the system goes by, now and after the next boot', async t => {
    const device = newDevice()
    for (const value of [first, second, first]) {
      t.equal(await device.change(name, value, letAll), undefined)
      t.same(await device.value(name), value)
      const { text } = device.receiver
      device.receiver.boot()
      t.equal(text, device.receiver.text)
      t.same(await device.value(name), value, 'after a boot')
    }
  })

  await t.test('a command that fails changes nothing', async t => {
    for (const how of ['is not installed', 'failed with status 1', 'did not end within 10 s'])
      for (const isDone of [false, true])
        for (const isLasting of [false, true]) {
          let [n, happened] = [0, true]
          while (happened) {
            happened = false
            const device = newDevice()
            let commands = 0
            n++
            const error = await device.change(name, first, call => {
              if (call.name !== 'run' || ++commands < n || (happened && !isLasting)) return call.proceed()
              happened = true
              return Promise.resolve(isDone && call.proceed()).then(() => {
                throw new HalError('COMMAND_FAILED', `${call.path.split(' ')[0]} ${how}`)
              })
            })
            const what = `command ${n} ${how}, ${isDone ? 'after' : 'before'} it did something${isLasting ? ', and so do all after it' : ''}`
            const { tree, receiver } = device
            if (error === undefined) {
              // A command that asks has another to ask.
              t.same([tree, receiver.text], [next.tree, next.text], what)
              continue
            }
            if (!(error instanceof TransactionFailed)) throw error
            t.match(error.cause, { message: how })
            t.same(changedPaths(old.tree, tree), [], what)
            if (isLasting && receiver.text !== old.text) t.same(error.notUndone, [name], `${what}: it is named`)
            else if (!isLasting) t.same([error.notUndone, receiver.text], [[], old.text], what)
          }
        }
  })

  await t.test('after a stop at any step the next start has all of the old or all of the new', async t => {
    const isEither = (device: Running, what: string) => {
      const [tree, text] = [device.tree, device.receiver.text]
      const is = (state: State) => changedPaths(state.tree, tree).length === 0 && state.text === text
      if (!is(old) && !is(next)) t.same({ tree, text }, old, what)
      t.same(leftoversIn(device.root), [], what)
    }
    for (let [n, stopped] = [1, true]; stopped; n++) {
      const device = newDevice()
      const error = (await device.change(name, first, stopAt(n))) as Error | undefined
      stopped = [error, error?.cause].some(error => error instanceof Stopped)
      await device.recover(name)
      isEither(device, `a stop in the place of step ${n}`)
    }
    // And where the start is stopped in what it undoes, the one after it.
    for (let [n, stopped] = [1, true]; stopped; n++) {
      const device = newDevice()
      await device.change(name, first, letAll, false)
      const error = await device.recover(name, stopAt(n)).catch(error => error)
      stopped = error instanceof Stopped
      await device.recover(name)
      isEither(device, `a stop in the place of step ${n} of the undoing`)
    }
  })
}

interface State {
  readonly tree: Tree
  readonly text: string
}
