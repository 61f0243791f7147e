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
 * The key in the state directory; undefined where there is none.
 * @throws {HalError} where the file holds something else; the system's errors as they are.
 */
export async function readKey(state: Files): Promise<string | undefined> {
  const text = await state.readText(FILE)
  return text === undefined ? undefined : parseKey(text)
}

/** Makes a key durable: before it returns the old key is in the file, after it the new one, and nothing in between. */
export async function writeKey(state: Files, key: string): Promise<void> {
  await state.writeAtomic(FILE, `${key}\n`, MODE)
}

function parseKey(text: string): string {
  const key = text.trimEnd()
  if (!API_KEY.test(key)) throw new HalError('UNREADABLE', 'the file does not contain an API key')
  return key
}

/** The API key in force, and the file that it is in. */
export class ApiKeyStore {
  readonly #state: Files
  readonly #log: Log
  /** Reading and rotating take turns: a reading that began before a rotation must not bring the old key back. */
  readonly #queue = new Serial()
  readonly #stops: Stop[] = []
  #current: string
  #complaint: string | undefined
  #settling: NodeJS.Timeout | undefined
  #replaced: (key: string) => void = () => undefined

  /** Takes the key of the state directory, or makes the first one. A file that holds no key is replaced by a new one. */
  static async open(state: Files, log: Log): Promise<ApiKeyStore> {
    try {
      await state.recover(FILE)
      const key = await readKey(state)
      if (key !== undefined) {
        // Writes only where the mode is not ours: somebody may have copied the file, for all to read.
        await writeKey(state, key)
        return new ApiKeyStore(state, log, key)
      }
      log('notice', 'a first API key has been made; `receiverd key show` prints it')
    } catch (error) {
      if (!isUnreadable(error)) throw error
      log('warning', `API key: ${error.message}; a new key was generated, and all tokens are revoked`)
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

  /** Calls `replaced` at the moment a new key is in force: by `rotate`, or because the file was replaced. */
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
   * Makes a new key, durable first, then in force.
   * @param precondition Called when its turn has come; throws where the key must not be made.
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
      if (complaint !== this.#complaint) this.#log('warning', `API key: ${complaint}; the key in force stays`)
      this.#complaint = complaint
    }
  }

  #putInForce(key: string): void {
    this.#current = key
    this.#log('notice', 'a new API key is in force; every token of the old one is revoked')
    this.#replaced(key)
  }
}
