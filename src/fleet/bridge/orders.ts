import { setTimeout as sleep } from 'node:timers/promises'
import { Serial } from '../../../hal/serial.ts'
import { type CommandName, isCommandName } from './settings.ts'

/** A command that somebody gave a device. */
export interface Order {
  readonly command: CommandName
  /** The id of the session that it is about; undefined for the one that is shown. */
  readonly session: string | undefined
}

/** Limit on a message, in characters. */
const MAX_MESSAGE = 256
/** Limit on the orders of a device that wait, besides the one that is carried out. */
const MAX_WAITING = 4
/** Milliseconds after an order, so that a flood of them leaves the device time for others. */
const PAUSE_MS = 1_000
/** Milliseconds after which an order is probably no longer wanted. */
const STALE_MS = 30_000
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Parses a message such as `identify` or `{"command": "admit", "session": ID}`. @returns undefined if it is not an order. */
export function orderIn(text: string): Order | undefined {
  if (text.length > MAX_MESSAGE) return undefined
  if (isCommandName(text)) return { command: text, session: undefined }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  const { command, session } = Object(value) as Partial<Record<string, unknown>>
  if (typeof command !== 'string' || !isCommandName(command)) return undefined
  if (session === undefined) return { command, session }
  return typeof session === 'string' && UUID.test(session) ? { command, session } : undefined
}

/** Carries out the orders of a device, one at a time. */
export class Orders {
  readonly #carryOut: (order: Order, isStale: boolean) => Promise<void>
  readonly #signal: AbortSignal
  readonly #turn = new Serial()
  /** The commands that wait. */
  readonly #waiting = new Set<string>()

  /** @param carryOut Does not reject. */
  constructor(carryOut: (order: Order, isStale: boolean) => Promise<void>, signal: AbortSignal) {
    this.#carryOut = carryOut
    this.#signal = signal
  }

  /** Queues an order, unless the same order is already waiting. @returns false if too many wait. */
  take(order: Order): boolean {
    const key = `${order.command} ${order.session}`
    if (this.#waiting.has(key)) return true
    if (this.#waiting.size >= MAX_WAITING) return false
    this.#waiting.add(key)
    const taken = performance.now()
    this.#turn.run(async () => {
      this.#waiting.delete(key)
      if (this.#signal.aborted) return
      await this.#carryOut(order, performance.now() - taken > STALE_MS)
      await sleep(PAUSE_MS, undefined, { signal: this.#signal }).catch(() => undefined)
    })
    return true
  }
}
