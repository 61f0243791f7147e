import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TSchema } from 'typebox/type'
import { Files } from '../../../hal/files/files.ts'
import type { System } from '../../../hal/os/system.ts'
import type { Setting } from '../../../hal/setting.ts'
import { Journal } from '../../../hal/transaction/journal.ts'
import { Originals } from '../../../hal/transaction/originals.ts'
import { Transactions } from '../../../hal/transaction/transaction.ts'
import type { JsonValue } from '../../../src/json.ts'

/** Changes one setting as the service does: writes, activates and keeps it, or undoes it if that fails. */
export async function apply<S extends TSchema>(
  system: System,
  setting: Setting<S>,
  previous: unknown,
  next: unknown,
): Promise<void> {
  const state = mkdtempSync(join(tmpdir(), 'receiverd-'))
  const one = setting as unknown as Setting
  const transactions = new Transactions(system, [one], new Journal(new Files(state)), new Originals(new Files(state)))
  try {
    await transactions.apply([{ setting: one, previous: previous as JsonValue, next: next as JsonValue }], true)
    await transactions.keep()
  } finally {
    rmSync(state, { recursive: true })
  }
}
