import type { Test } from 'tap'
import { errorCode, HalError } from '../../hal/errors.ts'
import { type Run, runCommand } from '../../hal/os/command.ts'
import { TransactionFailed } from '../../hal/transaction/transaction.ts'
import { type Call, type ErrorCode, failingAt, refuseRename, Stopped, stoppingAt } from '../hal/support/file-system.ts'
import { changedPaths, leftoversIn, type Tree, treeOf } from '../hal/support/tree.ts'
import { change, Devices, open, runSteps, type WritableSubject } from './subject.ts'

/** Rules for every setting with files when the system refuses, or the process is stopped: see hal/setting.ts. */
export async function failureContract(t: Test, subject: WritableSubject): Promise<void> {
  const devices = new Devices(t)
  const [first] = subject.values

  await runSteps(t, {
    'a system call that fails changes nothing': async t => {
      const failures: readonly (readonly [
        code: ErrorCode,
        what: string,
        which: (call: Pick<Call, 'name' | 'changes'>) => boolean,
      ])[] = [
        ['EROFS', 'anything that changes something', call => call.changes],
        ['ENOSPC', 'a write', call => ['file.write', 'symlink', 'mkdir'].includes(call.name)],
        ['EIO', 'fsync', call => call.name === 'file.sync'],
        ['EIO', 'a read', call => call.name === 'read'],
        ['EXDEV', 'a rename', call => call.name === 'rename'],
        ['EBUSY', 'a rename', call => call.name === 'rename'],
      ]
      for (const [code, what, which] of failures) {
        let [n, failed] = [0, true]
        while (failed) {
          const root = devices.receiver()
          const before = treeOf(root)
          let happened = false
          const fs = failingAt(++n, code, call => {
            const isIt = which(call)
            happened ||= isIt
            return isIt
          })
          failed = false
          try {
            await change(open(subject, root, { fs }), first)
            t.same(await open(subject, root).setting.read(), first)
          } catch (error) {
            failed = true
            isUndone(t, error, before, root, code)
          }
          t.ok(happened, `${code} for ${what}, call ${n}`)
          t.same(leftoversIn(root), [])
        }
      }
    },

    'files that are mount points are written in place, and links are refused': async t => {
      for (const code of ['EBUSY', 'EXDEV'] as const) {
        const root = devices.receiver()
        const before = treeOf(root)
        const fs = stoppingAt(Number.POSITIVE_INFINITY, refuseRename(code))
        const error = await change(open(subject, root, { fs }), first).catch(error => error)
        if (error) isUndone(t, error, before, root, code)
        else t.same(await open(subject, root).setting.read(), first, code)
        t.same(leftoversIn(root), [])
      }
    },

    'a command that fails changes nothing': async t => {
      const ran: string[] = []
      for (const how of ['is not installed', 'failed with status 1', 'did not end within 20 s'])
        for (const isDone of [false, true]) {
          const root = devices.receiver()
          const before = treeOf(root)
          const run: Run = async argv => {
            ran.push(argv[0])
            if (isDone) await runCommand(argv)
            throw new HalError('COMMAND_FAILED', `${argv[0]} ${how}`)
          }
          const error = await change(open(subject, root, { run }), first).catch(error => error)
          if (ran.length === 0) {
            t.same(await open(subject, root).setting.read(), first, 'it runs no command')
            return
          }
          isUndone(t, error, before, root)
          t.match(error, { cause: { message: how } }, `${how}, ${isDone ? 'after' : 'before'} it did something`)
        }
    },

    'after a stop at any step, the next start finds all of the old or all of the new': async t => {
      const [was, done] = [devices.receiver(), devices.receiver()]
      await open(subject, done).setting.write?.(first)
      const [old, next] = [treeOf(was), treeOf(done)]
      for (const [refuse, isKept] of [
        [undefined, true],
        [undefined, false],
        [refuseRename('EBUSY'), true],
        [refuseRename('EBUSY'), false],
      ] as const) {
        let [n, stopped] = [0, true]
        while (stopped) {
          const root = devices.receiver()
          const fs = stoppingAt(++n, refuse)
          const error = await change(open(subject, root, { fs }), first, isKept).catch(error => error)
          stopped = [error, error?.cause].some(error => error instanceof Stopped)
          const { system, setting, transactions } = open(subject, root)
          await setting.unavailable?.()
          await system.recover(...setting.files)
          await transactions.recover()
          const now = treeOf(root)
          const half = changedPaths(old, now).filter(() => changedPaths(next, now).length > 0)
          if (half.length > 0) t.fail(`neither old nor new after step ${n}`, { half: half.map(path => now[path]) })
          if (leftoversIn(root).length > 0) t.fail(`leftovers after step ${n}`, { leftovers: leftoversIn(root) })
          if (!stopped && !error) t.same(now, next, 'what was acknowledged is there')
        }
        t.ok(n > 2, `${n} steps were tried`)
      }
    },
  })
}

function isUndone(t: Test, error: unknown, before: Tree, root: string, code?: ErrorCode): void {
  if (!(error instanceof TransactionFailed)) {
    // The read before the transaction failed.
    t.equal(errorCode(error), code, 'the error of the system')
  } else {
    if (code) t.equal(errorCode(error.cause), code, 'the error of the system')
    t.same(error.notUndone, [], 'all is undone')
  }
  t.same(changedPaths(before, treeOf(root)), [], 'nothing has changed')
}
