import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import * as Type from 'typebox/type'
import { HalError } from '../../../hal/errors.ts'
import { Files } from '../../../hal/files/files.ts'
import type { System } from '../../../hal/os/system.ts'
import type { Setting } from '../../../hal/setting.ts'
import { Journal } from '../../../hal/transaction/journal.ts'
import { Originals } from '../../../hal/transaction/originals.ts'
import { type Change, TransactionFailed, Transactions } from '../../../hal/transaction/transaction.ts'
import { newRoot, originalsOf } from './tree.ts'

/** A root with `/etc/a`, `/etc/b`, a link to the latter, and a state directory. */
export function rootWithFiles(t: Test): string {
  const root = newRoot(t)
  mkdirSync(join(root, 'state'))
  for (const name of ['a', 'b']) writeFileSync(join(root, 'etc', name), 'old', { mode: 0o640 })
  symlinkSync('b', join(root, 'etc/link'))
  return root
}

/** A setting that keeps its value in one file, tells its steps (`write a new`), and fails at those that `fails` selects. */
export function setting(
  system: System,
  name: string,
  steps: string[] = [],
  fails: (step: string) => boolean = () => false,
): Setting {
  const step = (what: string, value: unknown) => {
    steps.push(`${what} ${name} ${value}`)
    if (fails(`${what} ${value}`)) throw new HalError('COMMAND_FAILED', `${what} failed`)
  }
  return {
    name,
    schema: Type.String(),
    files: [`/etc/${name}`],
    read: async () => (await system.readText(`/etc/${name}`)) ?? '',
    fallback: async () => '',
    async write(value) {
      const isChanged = await system.writeAtomic(`/etc/${name}`, String(value))
      step('write', value)
      return isChanged
    },
    activate: async value => step('activate', value),
  }
}

/** The same without anything to activate. */
export function passive(...args: Parameters<typeof setting>): Setting {
  const { activate: _, ...rest } = setting(...args)
  return rest
}

export const change = (setting: Setting): Change => ({ setting, previous: 'old', next: 'new' })

/** Transactions with a journal in the state directory of `rootWithFiles`. */
export function transactionsOf(
  system: System,
  settings: readonly Setting[],
  state = new Files(`${system.root}/state`),
  warn?: (what: string) => void,
): Transactions {
  const originals = new Originals(new Files(originalsOf(system.root)))
  return new Transactions(system, settings, new Journal(state), originals, warn)
}

/** Applies and keeps. */
export async function transact(system: System, changes: readonly Change[]): Promise<void> {
  const transactions = transactionsOf(
    system,
    changes.map(change => change.setting),
  )
  await transactions.apply(changes)
  await transactions.keep()
}

export async function failureOf(done: Promise<unknown>): Promise<TransactionFailed> {
  const error = await done.then(
    () => undefined,
    error => error,
  )
  if (error instanceof TransactionFailed) return error
  throw new Error('expected TransactionFailed', { cause: error })
}
