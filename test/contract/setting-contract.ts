import { execFileSync } from 'node:child_process'
import { existsSync, linkSync, lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { errorCode, HalError } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import type { FileSystem } from '../../hal/files/kernel.ts'
import { type Run, runCommand } from '../../hal/os/command.ts'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { isWritable, type Setting } from '../../hal/setting.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { TransactionFailed, Transactions } from '../../hal/transaction/transaction.ts'
import type { JsonValue } from '../../src/json.ts'
import { schemaErrors } from '../../src/validate.ts'
import { type Call, type ErrorCode, failingAt, refuseRename, Stopped, stoppingAt } from '../hal/support/file-system.ts'
import { changedPaths, copierOf, leftoversIn, type Tree, treeOf } from '../hal/support/tree.ts'
import { deviceRoot } from '../support/device.ts'

/** Two values that differ from each other and, the first, from the fixture's. */
export type GoodValues = readonly [JsonValue, JsonValue]

interface Options {
  readonly fs?: FileSystem
  readonly run?: Run
}

/** Links that systemctl(1) makes: what else stands there it leaves alone, and refuses to go on. */
const MADE_BY_SYSTEMCTL = /^\/etc\/systemd\/system\//

/** What every setting does, whatever it is: see hal/setting.ts. */
export async function settingContract(t: Test, name: string, values: GoodValues | undefined): Promise<void> {
  const at = (root: string, options: Options = {}) => {
    const system = new System(root, options)
    const settings = registry(system)
    const setting = settings.find(setting => setting.name === name)
    if (!setting) throw new Error(`no setting ${name}`)
    // Beside the root, so that the journal is not taken for a change of the device.
    const journal = new Journal(new Files(`${root}.state`, options.fs))
    return { system, setting, transactions: new Transactions(system, settings, journal) }
  }
  const device = deviceRoot(t)
  const { setting: sample } = at(device)
  // Which files there are may depend on the parts of the device.
  await sample.unavailable?.()
  const copyDevice = copierOf(device)
  // Thousands of small files: in memory where there is such a place.
  const folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'receiverd-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const fifo = join(folder, 'fifo')
  execFileSync('mkfifo', [fifo])
  let roots = 0
  const newFolder = () => {
    const root = join(folder, `${roots++}`)
    mkdirSync(root)
    return root
  }
  const newDevice = () => {
    const root = newFolder()
    copyDevice(root)
    return root
  }

  await t.test('the value of a device and the fallback fit the schema', async t => {
    const { setting } = at(newDevice())
    t.equal(await setting.unavailable?.(), undefined)
    t.same(misfits(setting, await setting.read()), [])
    t.same(misfits(setting, await setting.fallback()), [])
    const empty = newFolder()
    t.same(misfits(setting, await at(empty).setting.fallback()), [], 'also where there is nothing at all')
    await readOrRefused(t, at(empty).setting, 'nothing at all')
    t.same(treeOf(empty), {}, 'reading makes nothing')
  })

  await t.test('whatever stands in the place of its files, it is read without a hang and without a change', async t => {
    for (const path of [...sample.files, ...(sample.sources ?? [])].filter(path => !path.includes('*')))
      for (const [what, put] of Object.entries({ ...REPAIRABLE, ...SPECIAL })) {
        const root = newDevice()
        putInPlace(root, path, put, fifo)
        const before = treeOf(root)
        await readOrRefused(t, at(root).setting, `${what} at ${path}`)
        t.same(changedPaths(before, treeOf(root)), [])
      }
  })

  if (!isWritable(sample)) return
  if (!values) throw new Error(`${name} can be written: it needs two good values in the table of settings.test.ts`)
  const [first, second] = values

  await t.test('what is written is read', async t => {
    const root = newDevice()
    const { setting } = at(root)
    t.notSame(await setting.read(), first, 'the first value is new')
    t.notSame(first, second)
    for (const value of [first, second, first]) {
      t.same(misfits(setting, value), [])
      t.same((await setting.check?.(value, await setting.read())) ?? [], [], 'the check has nothing against it')
      await setting.write?.(value)
      t.same(await setting.read(), value)
      t.same(await at(root).setting.read(), value, 'by another process, too')
    }
    t.same(leftoversIn(root), [])
  })

  await t.test('the same value again touches no file', async t => {
    const root = newDevice()
    const { setting } = at(root)
    for (const value of [first, second]) {
      await setting.write?.(value)
      const before = inodesOf(root)
      await setting.write?.(value)
      t.same(inodesOf(root), before)
    }
  })

  await t.test('only its files change', async t => {
    const root = newDevice()
    const { setting } = at(root)
    for (const value of [first, second]) {
      const before = treeOf(root)
      await setting.write?.(value)
      t.same(foreignChanges(setting, before, treeOf(root)), [])
    }
    const empty = newFolder()
    const { setting: anew } = at(empty)
    if (await anew.unavailable?.()) return
    await anew.write?.(first)
    t.same(await anew.read(), first, 'also where there is nothing yet')
    t.same(foreignChanges(anew, {}, treeOf(empty)), [])
  })

  await t.test('a check has no effects, and a transaction that works is what a write is', async t => {
    const [root, other] = [newDevice(), newDevice()]
    const before = treeOf(root)
    await at(root).setting.check?.(first, await at(root).setting.read())
    t.same(treeOf(root), before)
    await change(at(root), first)
    await at(other).setting.write?.(first)
    t.same(treeOf(root), treeOf(other))
  })

  await t.test('a write repairs whatever stands in the place of its files, or changes nothing', async t => {
    for (const path of sample.files)
      for (const [what, put] of Object.entries({ ...REPAIRABLE, ...SPECIAL })) {
        const root = newDevice()
        putInPlace(root, path, put, fifo)
        const before = treeOf(root)
        const error = await change(at(root), first).catch(error => error)
        const mayRefuse = what in SPECIAL || MADE_BY_SYSTEMCTL.test(path)
        if (error === undefined) t.same(await at(root).setting.read(), first, `${what} at ${path}`)
        else if (!mayRefuse || !(error instanceof TransactionFailed)) t.fail(`${what} at ${path}`, { error })
        else t.same([changedPaths(before, treeOf(root)), error.notUndone], [[], []], `${what} at ${path} is refused`)
        t.same(leftoversIn(root), [])
      }
  })

  await t.test('a call of the system that fails changes nothing', async t => {
    const failures: readonly (readonly [ErrorCode, string, (call: Pick<Call, 'name' | 'changes'>) => boolean])[] = [
      ['EROFS', 'whatever changes something', call => call.changes],
      ['ENOSPC', 'a write', call => ['file.write', 'symlink', 'mkdir'].includes(call.name)],
      ['EIO', 'fsync', call => call.name === 'file.sync'],
      ['EIO', 'a read', call => call.name === 'read'],
      ['EXDEV', 'rename', call => call.name === 'rename'],
      ['EBUSY', 'rename', call => call.name === 'rename'],
    ]
    for (const [code, what, which] of failures) {
      let [n, failed] = [0, true]
      while (failed) {
        const root = newDevice()
        const before = treeOf(root)
        let happened = false
        const fs = failingAt(++n, code, call => {
          const isIt = which(call)
          happened ||= isIt
          return isIt
        })
        failed = false
        try {
          await change(at(root, { fs }), first)
          t.same(await at(root).setting.read(), first)
        } catch (error) {
          failed = true
          isUndone(t, error, before, root, code)
        }
        t.ok(happened, `${code} of ${what}, call ${n}`)
        t.same(leftoversIn(root), [])
      }
    }
  })

  await t.test('files that are mounted are written in place, links refused', async t => {
    for (const code of ['EBUSY', 'EXDEV'] as const) {
      const root = newDevice()
      const before = treeOf(root)
      const fs = stoppingAt(Number.POSITIVE_INFINITY, refuseRename(code))
      const error = await change(at(root, { fs }), first).catch(error => error)
      if (error) isUndone(t, error, before, root, code)
      else t.same(await at(root).setting.read(), first, code)
      t.same(leftoversIn(root), [])
    }
  })

  await t.test('a command that fails changes nothing', async t => {
    const ran: string[] = []
    for (const how of ['is not installed', 'failed with status 1', 'did not end within 10 s'])
      for (const isDone of [false, true]) {
        const root = newDevice()
        const before = treeOf(root)
        const run: Run = async argv => {
          ran.push(argv[0])
          if (isDone) await runCommand(argv)
          throw new HalError('COMMAND_FAILED', `${argv[0]} ${how}`)
        }
        const error = await change(at(root, { run }), first).catch(error => error)
        if (ran.length === 0) {
          t.same(await at(root).setting.read(), first, 'it runs none')
          return
        }
        isUndone(t, error, before, root)
        t.match(error, { cause: { message: how } }, `${how}, ${isDone ? 'after' : 'before'} it did something`)
      }
  })

  await t.test('after a stop at any step the next start has all of the old or all of the new', async t => {
    const [was, done] = [newDevice(), newDevice()]
    await at(done).setting.write?.(first)
    const [old, next] = [treeOf(was), treeOf(done)]
    for (const [refuse, isKept] of [
      [undefined, true],
      [undefined, false],
      [refuseRename('EBUSY'), true],
      [refuseRename('EBUSY'), false],
    ] as const) {
      let [n, stopped] = [0, true]
      while (stopped) {
        const root = newDevice()
        const fs = stoppingAt(++n, refuse)
        const error = await change(at(root, { fs }), first, isKept).catch(error => error)
        stopped = [error, error?.cause].some(error => error instanceof Stopped)
        const { system, setting, transactions } = at(root)
        await setting.unavailable?.()
        for (const path of setting.files) await system.recover(path)
        await transactions.recover()
        const now = treeOf(root)
        const half = changedPaths(old, now).filter(() => changedPaths(next, now).length > 0)
        if (half.length > 0) t.fail(`neither old nor new after step ${n}`, { half: half.map(path => now[path]) })
        if (leftoversIn(root).length > 0) t.fail(`leftovers after step ${n}`, { leftovers: leftoversIn(root) })
        if (!stopped && !error) t.same(now, next, 'what was acknowledged is there')
      }
      t.ok(n > 2, `${n} steps were tried`)
    }
  })
}

/** Puts something there; `fifo` is one to link to. */
type Put = (at: string, fifo: string) => void

/** What a write of any value repairs. */
const REPAIRABLE: Readonly<Record<string, Put>> = {
  'garbage that is no text': at => writeFileSync(at, Buffer.from([0xff, 0xfe, 0, 0x80, 10])),
  'garbage that is text': at => writeFileSync(at, '=\n\0[\n"\'\\\n#\n[Time\nNTP'),
  'an empty file': at => writeFileSync(at, ''),
  'a file that is too long': at => writeFileSync(at, 'x'.repeat(100_000)),
  'long lines': at => writeFileSync(at, `${' '.repeat(20_000)}a=${'\\'.repeat(20_000)}\n[${'['.repeat(20_000)}`),
  'an empty folder': at => mkdirSync(at),
  'a link to itself': at => symlinkSync(at.slice(at.lastIndexOf('/') + 1), at),
  nothing: () => undefined,
}

/** What a write leaves as it is. */
const SPECIAL: Readonly<Record<string, Put>> = {
  'a FIFO': (at, fifo) => linkSync(fifo, at),
  'a folder with something in it': at => {
    mkdirSync(at)
    writeFileSync(join(at, 'file'), '')
  },
}

function putInPlace(root: string, path: string, put: Put, fifo: string): void {
  const at = join(root, path)
  mkdirSync(dirname(at), { recursive: true })
  rmSync(at, { recursive: true, force: true })
  put(at, fifo)
}

function misfits(setting: Setting, value: unknown): readonly unknown[] {
  return schemaErrors(setting.schema, value as JsonValue, '')
}

/** A value that does not fit is as good as one that cannot be read (hal/setting.ts); the fallback stands in. */
async function readOrRefused(t: Test, setting: Setting, what: string): Promise<void> {
  const error = await setting.read().then(
    () => undefined,
    error => error,
  )
  if (error) t.ok(error instanceof Error && error.constructor.name !== 'TypeError', `${what}: ${error.message}`)
  t.same(misfits(setting, await setting.fallback()), [], `the fallback for ${what}`)
}

interface Subject {
  readonly setting: Setting
  readonly transactions: Transactions
}

async function change({ setting, transactions }: Subject, next: JsonValue, isKept = true): Promise<void> {
  const previous = await setting.read().catch(() => setting.fallback())
  await transactions.apply([{ setting, previous, next }], isKept)
  await transactions.keep()
}

function isUndone(t: Test, error: unknown, before: Tree, root: string, code?: ErrorCode): void {
  if (!(error instanceof TransactionFailed)) {
    // What failed was the reading before the transaction.
    t.equal(errorCode(error), code, 'the error of the system')
  } else {
    if (code) t.equal(errorCode(error.cause), code, 'the error of the system')
    t.same(error.notUndone, [], 'all is undone')
  }
  t.same(changedPaths(before, treeOf(root)), [], 'nothing has changed')
}

function foreignChanges(setting: Setting, before: Tree, after: Tree): readonly string[] {
  return changedPaths(before, after).filter(path => !setting.files.includes(path))
}

function inodesOf(root: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.keys(treeOf(root)).map(path => {
      const { ino, mtimeMs, ctimeMs } = lstatSync(join(root, path))
      return [path, `${ino} ${mtimeMs} ${ctimeMs}`]
    }),
  )
}
