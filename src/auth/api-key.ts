import { randomBytes } from 'node:crypto'
import { HalError, isUnreadable, reasonOf } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import type { Stop } from '../../hal/files/watcher.ts'
import { Serial } from '../../hal/serial.ts'
import { POLL_MS, SETTLE_MS } from '../limits.ts'
import { Complaint, type Log } from '../log.ts'
import { UsageError } from '../usage-error.ts'
import { BYTES_32 } from './base64url.ts'

const FILE = '/api-key'
/** Exists while nobody has used the key that was generated here. */
const UNUSED = '/api-key.unused'
const MODE = 0o600
const KEY_BYTES = 32
const API_KEY = new RegExp(`^${BYTES_32}$`)
/** A key that was not generated here. Its line must be whole: a file that was cut off must not be taken for one. */
const OUTSIDE_KEY = /^[A-Za-z0-9._~-]{22,128}\n$/
/** The name of the credential in which systemd passes a key (systemd.exec(5), LoadCredential=). */
const CREDENTIAL = 'receiverd.api-key'

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

/** Removes the key durably: the next start makes a new one. */
export async function removeKey(state: Files): Promise<void> {
  await state.remove(FILE)
}

/**
 * The key that systemd passes; undefined if it passes none.
 * @param folder `$CREDENTIALS_DIRECTORY`.
 * @throws {UsageError} if it is not a key.
 */
export async function readCredential(folder: string): Promise<string | undefined> {
  const text = await new Files(folder).readText(`/${CREDENTIAL}`).catch(error => {
    throw new UsageError(`the credential ${CREDENTIAL} cannot be read: ${reasonOf(error)}`)
  })
  if (text === undefined) return undefined
  const key = text.replace(/\n$/, '')
  if (OUTSIDE_KEY.test(`${key}\n`)) return key
  throw new UsageError(`the credential ${CREDENTIAL} is not a key: give 22 to 128 characters of A-Z, a-z, 0-9 and ._~-`)
}

function parseKey(text: string): string {
  const key = text.trimEnd()
  if (!API_KEY.test(key) && !OUTSIDE_KEY.test(text))
    throw new HalError('UNREADABLE', 'the file does not contain an API key')
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
  #isUnused: boolean
  readonly #complaint: Complaint
  #settling: NodeJS.Timeout | undefined
  #replaced: (key: string) => void = () => undefined
  #firstUsed: () => void = () => undefined

  /**
   * Reads the key of the state directory, or makes the first one. A file that does not hold a key is replaced.
   * @param passed Returns a first key from outside; undefined to generate one. Called only if one is needed.
   * @param marksUnused Whether to remember that nobody has used a key which is generated now.
   */
  static async open(
    state: Files,
    log: Log,
    passed: () => Promise<string | undefined> = async () => undefined,
    marksUnused = false,
  ): Promise<ApiKeyStore> {
    let lost = ''
    try {
      await state.recover(FILE, UNUSED)
      const key = await readKey(state)
      if (key !== undefined) {
        // Writes only if the mode is not ours: a copied file may be readable by everyone.
        await writeKey(state, key)
        // Nothing is remembered while it is off, so the key may have been used meanwhile.
        if (!marksUnused) await state.remove(UNUSED)
        return new ApiKeyStore(state, log, key, marksUnused && (await state.exists(UNUSED)))
      }
    } catch (error) {
      if (!isUnreadable(error)) throw error
      lost = error.message
    }
    const outside = await passed()
    const key = outside ?? generateKey()
    const isUnused = marksUnused && outside === undefined && lost === ''
    if (isUnused) await state.writeAtomic(UNUSED, '', MODE)
    else await state.remove(UNUSED)
    await writeKey(state, key)
    const origin = outside === undefined ? 'generated' : 'taken from systemd'
    if (lost) log('warning', `API key: ${lost}; a new key was ${origin}, which revokes all tokens`)
    else log('notice', `the first API key was ${origin}; \`receiverd key show\` prints it`)
    return new ApiKeyStore(state, log, key, isUnused)
  }

  private constructor(state: Files, log: Log, key: string, isUnused: boolean) {
    this.#state = state
    this.#log = log
    this.#complaint = new Complaint(log)
    this.#current = key
    this.#isUnused = isUnused
  }

  /** Whether nobody has used the key since it was generated, as far as that was to be remembered. */
  get isUnused(): boolean {
    return this.#isUnused
  }

  /** Somebody has used the key, or a token made from it. */
  used(): void {
    if (!this.#isUnused) return
    this.#isUnused = false
    this.#firstUsed()
    this.#queue
      .run(() => this.#state.remove(UNUSED))
      .catch(error => this.#log('warning', `API key: could not record its first use: ${reasonOf(error)}`))
  }

  /** Calls `used` when somebody uses the key for the first time, or when it is replaced before anybody did. */
  onFirstUse(used: () => void): void {
    this.#firstUsed = used
  }

  get current(): string {
    return this.#current
  }

  /** Calls `replaced` at the moment a new key is in force, by `rotate` or because the file was replaced. */
  onReplaced(replaced: (key: string) => void): void {
    this.#replaced = replaced
    const reload = () => {
      this.#settling ??= setTimeout(() => {
        this.#settling = undefined
        this.#queue.run(() => this.#reread())
      }, SETTLE_MS)
    }
    const poll = setInterval(reload, POLL_MS).unref()
    this.#stops.push(this.#state.watch(FILE, reload), () => clearInterval(poll))
    reload()
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
      this.#complaint.end()
      if (key !== this.#current) this.#putInForce(key)
    } catch (error) {
      this.#complaint.say(`API key: ${reasonOf(error)}; keeping the key in force`)
    }
  }

  #putInForce(key: string): void {
    this.#current = key
    this.used()
    this.#log('notice', 'a new API key is in force; all tokens of the old one are revoked')
    this.#replaced(key)
  }
}
