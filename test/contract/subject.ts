import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import type { FileSystem } from '../../hal/files/kernel.ts'
import type { Run } from '../../hal/os/command.ts'
import { System } from '../../hal/os/system.ts'
import type { Setting } from '../../hal/setting.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { Originals } from '../../hal/transaction/originals.ts'
import { Transactions } from '../../hal/transaction/transaction.ts'
import type { JsonValue } from '../../src/json.ts'
import { schemaErrors } from '../../src/validate.ts'
import { copierOf } from '../hal/support/tree.ts'
import { deviceRoot } from '../support/device.ts'
import { IN_MEMORY } from '../support/folder.ts'
import type { GoodValues } from './values.ts'

/** A setting that is held to the contract, among the settings of its device. */
export interface Subject {
  readonly name: string
  readonly values: GoodValues | undefined
  readonly settings: (system: System) => readonly Setting[]
}

/** A writable subject. */
export interface WritableSubject extends Subject {
  readonly values: GoodValues
}

export interface Options {
  readonly fs?: FileSystem
  readonly run?: Run
}

/** A setting as a process has it that was just started. */
export interface Opened {
  readonly system: System
  readonly setting: Setting
  readonly settings: readonly Setting[]
  readonly transactions: Transactions
}

export function openOn({ name, settings: settingsOf }: Subject, system: System, fs?: FileSystem): Opened {
  const settings = settingsOf(system)
  const setting = settings.find(setting => setting.name === name)
  if (!setting) throw new Error(`no setting ${name}`)
  // Beside the root, so that the journal does not count as a change of the device.
  const state = new Files(`${system.root}.state`, fs)
  const transactions = new Transactions(system, settings, new Journal(state), new Originals(state))
  return { system, setting, settings, transactions }
}

/** The subject on a device that does not run. */
export function open(subject: Subject, root: string, options: Options = {}): Opened {
  return openOn(subject, new System(root, options), options.fs)
}

/** Changes a setting as the service does. */
export async function change({ setting, transactions }: Opened, next: JsonValue, isKept = true): Promise<void> {
  const previous = await setting.read().catch(() => setting.fallback())
  await transactions.apply([{ setting, previous, next }], isKept)
  await transactions.keep()
}

export function misfits(setting: Setting, value: unknown): readonly unknown[] {
  return schemaErrors(setting.schema, value as JsonValue, '')
}

/** Folders for one test, each with a copy of test/fixtures/receiver or empty. */
export class Devices {
  readonly folder: string
  readonly #copy: (target: string) => void
  #count = 0

  constructor(t: Test) {
    this.#copy = copierOf(deviceRoot(t))
    this.folder = mkdtempSync(join(IN_MEMORY, 'receiverd-'))
    // rm(1) removes thousands of small files in a tenth of the time that rmSync takes.
    t.teardown(() => execFileSync('rm', ['-rf', this.folder]))
  }

  empty(): string {
    const root = join(this.folder, `${this.#count++}`)
    mkdirSync(root)
    return root
  }

  receiver(): string {
    const root = this.empty()
    this.#copy(root)
    return root
  }
}

/** The steps of a contract, until one fails: later ones would only repeat its failures. */
export async function runSteps(t: Test, steps: Readonly<Record<string, (t: Test) => Promise<void>>>): Promise<void> {
  for (const [name, step] of Object.entries(steps)) {
    if (!t.passing()) return
    await t.test(name, step)
  }
}
