import { HalError, isNoSpace, reasonOf } from '../../hal/errors.ts'
import { readBootId } from '../../hal/os/boot-id.ts'
import { isTemporary } from '../../hal/os/data-partition.ts'
import type { System } from '../../hal/os/system.ts'
import type { Log } from '../log.ts'

/** Suffix of a file next to the order that reserves the space for it, in case the partition is full. */
const RESERVE = '.reserve'
const RESERVE_BYTES = 64 * 1024
const [FORGET_CARD, KEEP_CARD] = ['forget-card', 'keep-card'] as const

/**
 * A factory reset on an image whose `/etc` and `/var` are overlays, which the next boot empties before anything runs. The
 * order is a file outside of them. Its first line says whether to forget the settings from the card; its second line is the
 * boot in which the order was given.
 */
export class ImageReset {
  readonly #system: System
  readonly #order: string

  /** @param order The path of the order. */
  constructor(system: System, order: string) {
    this.#system = system
    this.#order = order
  }

  /** Reserves space for an order: a full device is the most likely to need a reset. */
  async reserve(log: Log): Promise<void> {
    const path = this.#order + RESERVE
    try {
      // An order in memory would not survive the restart.
      if (await isTemporary(this.#system)) return
      if ((await this.#system.size(path)) === RESERVE_BYTES) return
      await this.#system.writeAtomic(path, Buffer.alloc(RESERVE_BYTES))
    } catch (error) {
      log('warning', `factory reset: no space could be reserved for an order: ${reasonOf(error)}`)
    }
  }

  /**
   * Orders the reset. Once it returns, the reset is certain, even if the power fails.
   * @throws {HalError} `ABSENT` if the data to reset is on a partition that could not be mounted.
   */
  async order(forgetsCard: boolean): Promise<void> {
    if (await isTemporary(this.#system))
      throw new HalError(
        'ABSENT',
        'the data partition could not be mounted, and its settings and keys would stay on it; erase the card, or destroy it',
      )
    const text = `${forgetsCard ? FORGET_CARD : KEEP_CARD}\n${await readBootId(this.#system)}\n`
    try {
      await this.#system.writeAtomic(this.#order, text)
    } catch (error) {
      if (!isNoSpace(error)) throw error
      await this.#system.remove(this.#order + RESERVE)
      await this.#system.writeAtomic(this.#order, text)
    }
  }

  /**
   * Reports whether the device still has to restart for the order. If this boot should have carried it out but did not, logs
   * that instead: restarting again and again would make the device unreachable.
   */
  async isDue(log: Log): Promise<boolean> {
    const text = await this.#system.readText(this.#order).catch(error => {
      log('error', `factory reset: the order cannot be read: ${reasonOf(error)}`)
      return undefined
    })
    if (text === undefined) return false
    if (text.split('\n')[1] === (await readBootId(this.#system))) return true
    log(
      'error',
      'factory reset: this boot has not carried it out; the device is served as it is, and the next boot tries again',
    )
    return false
  }
}
