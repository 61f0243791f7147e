import { HalError, isNoSpace, reasonOf } from '../../hal/errors.ts'
import { isTemporary } from '../../hal/os/data-partition.ts'
import type { System } from '../../hal/os/system.ts'
import type { Log } from '../log.ts'

const BOOT_ID = '/proc/sys/kernel/random/boot_id'
/** Beside the order: what it takes the place of when the partition is full. */
const RESERVE = '.reserve'
const RESERVE_BYTES = 64 * 1024
const [FORGET_CARD, KEEP_CARD] = ['forget-card', 'keep-card'] as const

/**
 * A factory reset on an image whose `/etc` and `/var` are overlays: the next boot empties them, before anything runs. The
 * order is a file outside of them. Its first line says whether what the card gave is forgotten; the second is the boot in
 * which it was given.
 */
export class ImageReset {
  readonly #system: System
  readonly #order: string

  /** @param order The path of that file. */
  constructor(system: System, order: string) {
    this.#system = system
    this.#order = order
  }

  /** Keeps room for an order: a device that is full needs one most. */
  async reserve(log: Log): Promise<void> {
    const path = this.#order + RESERVE
    try {
      // In memory, no order outlasts the restart.
      if (await isTemporary(this.#system)) return
      if ((await this.#system.size(path)) === RESERVE_BYTES) return
      await this.#system.writeAtomic(path, Buffer.alloc(RESERVE_BYTES))
    } catch (error) {
      log('warning', `factory reset: no room could be kept for an order: ${reasonOf(error)}`)
    }
  }

  /**
   * From when this returns the device will be reset, whatever happens to the power.
   * @throws {HalError} `ABSENT` if what is to be reset is on a partition that could not be mounted.
   */
  async order(forgetsCard: boolean): Promise<void> {
    if (await isTemporary(this.#system))
      throw new HalError(
        'ABSENT',
        'the data partition could not be mounted, and its settings and keys would stay on it; erase the card, or destroy it',
      )
    const text = `${forgetsCard ? FORGET_CARD : KEEP_CARD}\n${await this.#bootId()}\n`
    try {
      await this.#system.writeAtomic(this.#order, text)
    } catch (error) {
      if (!isNoSpace(error)) throw error
      await this.#system.remove(this.#order + RESERVE)
      await this.#system.writeAtomic(this.#order, text)
    }
  }

  /**
   * Whether the device has yet to restart for it. A boot that should have carried the order out, and has not, is logged: it
   * must not be repeated for ever, because nobody could reach the device.
   */
  async isDue(log: Log): Promise<boolean> {
    const text = await this.#system.readText(this.#order).catch(error => {
      log('error', `factory reset: the order cannot be read: ${reasonOf(error)}`)
      return undefined
    })
    if (text === undefined) return false
    if (text.split('\n')[1] === (await this.#bootId())) return true
    log(
      'error',
      'factory reset: this boot has not carried it out; the device is served as it is, and the next boot tries again',
    )
    return false
  }

  async #bootId(): Promise<string> {
    return (await this.#system.readText(BOOT_ID))?.trim() ?? ''
  }
}
