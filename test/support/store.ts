import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import * as Type from 'typebox/type'
import { Files } from '../../hal/files/files.ts'
import type { FileSystem } from '../../hal/files/kernel.ts'
import type { System } from '../../hal/os/system.ts'
import type { Setting } from '../../hal/setting.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { Originals } from '../../hal/transaction/originals.ts'
import { Transactions } from '../../hal/transaction/transaction.ts'
import { SystemStore, type SystemStoreOptions } from '../../src/system/store.ts'

/** A setting that is the text of a file. */
export function plain(system: System, name: string, rest: Partial<Setting> = {}): Setting {
  const path = `/${name}`
  return {
    name,
    schema: Type.String(),
    files: [path],
    read: async () => (await system.readText(path)) ?? '',
    fallback: async () => '',
    write: async next => system.writeAtomic(path, String(next)),
    ...rest,
  }
}

interface StoreOptions extends Pick<SystemStoreOptions, 'retryMs'> {
  /** Of the state directory. */
  readonly fs?: FileSystem
  /** The state directory of an earlier start; if omitted, a new one. */
  readonly state?: string | undefined
}

function newState(t: Test): string {
  const state = mkdtempSync(join(tmpdir(), 'receiverd-'))
  t.teardown(() => rmSync(state, { recursive: true }))
  return state
}

/** A store of these settings without a service around it. */
export async function startStoreOf(
  t: Test,
  system: System,
  settings: readonly Setting[],
  { fs, state = newState(t), ...options }: StoreOptions = {},
) {
  const lines: string[] = []
  const log = (level: string, line: string) => void lines.push(`${level}: ${line}`)
  const files = new Files(state, fs)
  const transactions = new Transactions(system, settings, new Journal(files), new Originals(files))
  const ring = { maxEvents: 100, maxBytes: 100_000, newId: randomUUID }
  const store = new SystemStore({ system, state: files, settings, transactions, ring, log, ...options })
  await store.start()
  t.teardown(() => store.stop())
  return { store, log: lines, state }
}
