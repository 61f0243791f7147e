import { randomBytes } from 'node:crypto'
import { HalError, isUnreadable, reasonOf } from '../../hal/errors.ts'
import type { Files } from '../../hal/files/files.ts'
import type { Stop } from '../../hal/files/watcher.ts'
import { POLL_MS, SETTLE_MS } from '../limits.ts'
import type { Log } from '../log.ts'
import { Serial } from '../serial.ts'
import { BYTES_32 } from './base64url.ts'

const FILE = '/api-key'
const MODE = 0o600
const KEY_BYTES = 32
const API_KEY = new RegExp(`^${BYTES_32}$`)

/** A new API key: 32 random bytes as base64url. */
export function generateKey(): string {
  return randomBytes(KEY_BYTES).toString('base64url')
}

/**
 * The key in the state directory; undefined if there is none.
 * @throws {HalError} if the file does not hold a key; errors of the system as they are.
 */
export async function readKey(state: Files): Promise<string | undefined> {
  const text = await state.readText(FILE)
  return text === undefined ? undefined : parseKey(text)
}

/** Stores a key durably. A power cut leaves the old key or the new one, whole. */
export async function writeKey(state: Files, key: string): Promise<void> {
  await state.writeAtomic(FILE, `${key}\n`, MODE)
}

function parseKey(text: string): string {
  const key = text.trimEnd()
  if (!API_KEY.test(key)) throw new HalError('UNREADABLE', 'the file does not contain an API key')
  return key
}

/** The API key in force, and its file. */
export class ApiKeyStore {
  readonly #state: Files
  readonly #log: Log
  /** Reads and rotations take turns: a read that began before a rotation must not bring the old key back. */
  readonly #queue = new Serial()
  readonly #stops: Stop[] = []
  #current: string
  /** The last reason that the log has, so that it is not repeated. */
  #complaint: string | undefined
  #settling: NodeJS.Timeout | undefined
  #replaced: (key: string) => void = () => undefined

  /** Reads the key of the state directory, or makes the first one. A file that does not hold a key is replaced. */
  static async open(state: Files, log: Log): Promise<ApiKeyStore> {
    try {
      await state.recover(FILE)
      const key = await readKey(state)
      if (key !== undefined) {
        // Writes only if the mode is not ours: a copied file may be readable by everyone.
        await writeKey(state, key)
        return new ApiKeyStore(state, log, key)
      }
      log('notice', 'generated the first API key; `receiverd key show` prints it')
    } catch (error) {
      if (!isUnreadable(error)) throw error
      log('warning', `API key: ${error.message}; a new key was generated, which revokes all tokens`)
    }
    const key = generateKey()
    await writeKey(state, key)
    return new ApiKeyStore(state, log, key)
  }

  private constructor(state: Files, log: Log, key: string) {
    this.#state = state
    this.#log = log
    this.#current = key
  }

  get current(): string {
    return this.#current
  }

  /** Calls `replaced` at the moment a new key is in force, by `rotate` or because the file was replaced. */
  onReplaced(replaced: (key: string) => void): void {
    this.#replaced = replaced
    const look = () => {
      this.#settling ??= setTimeout(() => {
        this.#settling = undefined
        this.#queue.run(() => this.#reread())
      }, SETTLE_MS)
    }
    const poll = setInterval(look, POLL_MS).unref()
    this.#stops.push(this.#state.watch(FILE, look), () => clearInterval(poll))
    look()
  }

  stop(): void {
    for (const stop of this.#stops) stop()
    clearTimeout(this.#settling)
  }

  /**
   * Makes a new key: durable first, then in force.
   * @param precondition Called when its turn has come; throws if the key must not be made.
   */
  rotate(precondition: () => void = () => undefined): Promise<string> {
    return this.#queue.run(async () => {
      precondition()
      const key = generateKey()
      await writeKey(this.#state, key)
      this.#putInForce(key)
      return key
    })
  }

  async #reread(): Promise<void> {
    try {
      const key = await readKey(this.#state)
      if (key === undefined) throw new HalError('UNREADABLE', 'the file is gone')
      this.#complaint = undefined
      if (key !== this.#current) this.#putInForce(key)
    } catch (error) {
      const complaint = reasonOf(error)
      if (complaint !== this.#complaint) this.#log('warning', `API key: ${complaint}; keeping the key in force`)
      this.#complaint = complaint
    }
  }

  #putInForce(key: string): void {
    this.#current = key
    this.#log('notice', 'a new API key is in force; all tokens of the old one are revoked')
    this.#replaced(key)
  }
}
