import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { System, type SystemOptions } from '../../../hal/os/system.ts'
import type { Setting } from '../../../hal/setting.ts'
import type { JsonValue } from '../../../src/json.ts'
import { illFormedStrings, schemaErrors } from '../../../src/validate.ts'
import { deviceRoot } from '../../support/device.ts'

/** A running system whose files are in a folder. Its commands do nothing unless others are given. */
export function runningAt(root: string, options: SystemOptions = {}): System {
  return new System(root, { run: async () => '', ...options, running: true })
}

/** One setting, and the files of its device. */
export class Device<S extends Setting> {
  readonly root: string
  readonly system: System
  readonly setting: S

  constructor(t: Test, setting: (system: System) => S, systemAt = (root: string) => new System(root)) {
    this.root = deviceRoot(t)
    this.system = systemAt(this.root)
    this.setting = setting(this.system)
  }

  /** The value that clients see: what is read if it matches the schema, otherwise the fallback. */
  async value(): Promise<unknown> {
    const value = await this.setting.read().catch(() => undefined)
    return value === undefined || this.misfits(value).length > 0 ? this.setting.fallback() : value
  }

  misfits(value: unknown): readonly unknown[] {
    return [...illFormedStrings(value as JsonValue), ...schemaErrors(this.setting.schema, value as JsonValue, '')]
  }

  /** Whether a value is accepted by the schema and by the check. */
  async accepts(value: unknown): Promise<boolean> {
    return this.misfits(value).length === 0 && ((await this.setting.check?.(value, value)) ?? []).length === 0
  }

  text(path: string): string {
    return readFileSync(join(this.root, path), 'utf8')
  }

  /** Replaces a path by a file, or by nothing. */
  put(path: string, text: string | Buffer | undefined): void {
    const at = join(this.root, path)
    rmSync(at, { recursive: true, force: true })
    if (text === undefined) return
    mkdirSync(dirname(at), { recursive: true })
    writeFileSync(at, text)
  }
}
