import type { Image } from './files.ts'
import type { Setting } from './setting.ts'
import type { System } from './system.ts'

export interface Change {
  readonly setting: Setting
  readonly previous: unknown
  readonly next: unknown
}

/** A change that the system refused. `cause` is its error. */
export class TransactionFailed extends Error {
  /** The setting that was refused. */
  readonly setting: string
  /** Settings that could not be put back; none where nothing has changed. */
  readonly notUndone: readonly string[]

  constructor(setting: string, notUndone: readonly string[], cause: unknown) {
    super(`${setting} refused`, { cause })
    this.setting = setting
    this.notUndone = notUndone
  }
}

/**
 * Applies changes in their order, all or none: when one fails, it and those before it are undone in reverse.
 * @throws {TransactionFailed}
 */
export async function transact(system: System, changes: readonly Change[]): Promise<void> {
  const begun: {
    readonly change: Change
    readonly images: readonly Image[]
  }[] = []
  for (const change of changes) {
    const { setting, previous, next } = change
    try {
      const images = (await Promise.all(setting.files.map(path => system.capture(path)))).flat()
      begun.push({ change, images })
      await setting.write?.(next)
      if (system.isRunning) await setting.activate?.(next, previous)
    } catch (error) {
      const notUndone: string[] = []
      for (const { change, images } of begun.reverse())
        if (!(await undo(system, change, images))) notUndone.push(change.setting.name)
      throw new TransactionFailed(setting.name, notUndone, error)
    }
  }
}

async function undo(system: System, { setting, previous, next }: Change, images: readonly Image[]): Promise<boolean> {
  let undone = true
  for (const image of images.toReversed())
    await system.restore(image).catch(() => {
      undone = false
    })
  if (system.isRunning)
    await setting.activate?.(previous, next).catch(() => {
      undone = false
    })
  return undone
}
