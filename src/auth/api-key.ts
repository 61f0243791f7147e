import { reasonOf } from '../../hal/errors.ts'
import type { Files } from '../../hal/files/files.ts'
import type { Stop } from '../../hal/files/watcher.ts'
import { Serial } from '../../hal/serial.ts'
import { POLL_MS, SETTLE_MS } from '../limits.ts'
import { Complaint, type Log } from '../log.ts'
import {
  FORMER_FILE,
  generateKey,
  isMarkedUnused,
  isOnlyKey,
  KEY_FILE,
  markUnused,
  readKey,
  rememberKey,
  replaceKey,
  requireNewKey,
  UNUSED_FILE,
  writeKey,
} from './key-file.ts'

export interface ApiKeyOptions {
  readonly log: Log
  /** Returns a first key from outside; undefined to generate one. Called only if a first key is needed. */
  readonly passed?: () => Promise<string | undefined>
  /** Whether to record that a newly generated key is unused. */
  readonly marksUnused?: boolean
}

/** The API key in force, and its file. */
export class ApiKeyStore {
  readonly #state: Files
  readonly #log: Log
  /** Makes reads and replacements take turns: a read that began before a replacement must not bring the old key back. */
  readonly #queue = new Serial()
  readonly #stops: Stop[] = []
  readonly #complaint: Complaint
  #current: string | undefined
  #isStored = true
  #isUnused = false
  #settling: NodeJS.Timeout | undefined
  #replaced: (key: string) => void = () => undefined
  #firstUsed: () => void = () => undefined

  /**
   * Reads the key in the state directory, or makes the first one. If that cannot be stored, it lasts for this run only. If
   * the file cannot be read, no key is in force until it can: a new key in its place would lock out the owner.
   * @throws {UsageError} if the first key from `passed` is not a key.
   */
  static async open(state: Files, options: ApiKeyOptions): Promise<ApiKeyStore> {
    const store = new ApiKeyStore(state, options.log)
    await store.#open(options)
    return store
  }

  private constructor(state: Files, log: Log) {
    this.#state = state
    this.#log = log
    this.#complaint = new Complaint(log)
  }

  /** The key in force; undefined while its file cannot be read. */
  get current(): string | undefined {
    return this.#current
  }

  /** Whether the key in force is stored in its file, so that it survives this run. */
  get isStored(): boolean {
    return this.#isStored
  }

  /** Whether the key has not been used since it was generated, if that was to be recorded. */
  get isUnused(): boolean {
    return this.#isUnused
  }

  /** Records that somebody has used the key, or a token made from it. */
  used(): void {
    if (!this.#isUnused) return
    this.#isUnused = false
    this.#firstUsed()
    this.#queue.run(() => this.#forgetUnused())
  }

  /** Calls `used` when the key is used for the first time, or replaced before anybody has used it. */
  onFirstUse(used: () => void): void {
    this.#firstUsed = used
  }

  /** Calls `replaced` as soon as a new key is in force, through `replace` or because the file was replaced. */
  onReplaced(replaced: (key: string) => void): void {
    this.#replaced = replaced
    const reload = () => {
      this.#settling ??= setTimeout(() => {
        this.#settling = undefined
        this.#queue.run(() => this.#reread())
      }, SETTLE_MS)
    }
    const poll = setInterval(reload, POLL_MS).unref()
    this.#stops.push(this.#state.watch(KEY_FILE, reload), () => clearInterval(poll))
    reload()
  }

  stop(): void {
    for (const stop of this.#stops) stop()
    clearTimeout(this.#settling)
  }

  /**
   * Replaces the key: the new one is first durable, then in force. If it is the key in force, nothing changes, so a client
   * that lost the response can repeat the request.
   * @param chosen The new key. If omitted, one is generated.
   * @param precondition Called when the turn of this change has come; throws if the key must not be replaced.
   * @throws {RefusedKey} if the key is invalid, or was in force before.
   */
  replace(chosen?: string, precondition: () => void = () => undefined): Promise<string> {
    return this.#queue.run(async () => {
      precondition()
      const key = await replaceKey(this.#state, this.#current, chosen, this.#isStored)
      if (key !== this.#current) this.#putInForce(key)
      return key
    })
  }

  /** Resolves with whether no other key has been in force since the first start or the last factory reset. */
  isFirst(): Promise<boolean> {
    return isOnlyKey(this.#state, this.#current)
  }

  /** @throws {RefusedKey} if `replace` would refuse the key. */
  async requireUsable(chosen: string): Promise<void> {
    if (chosen !== this.#current) await requireNewKey(this.#state, chosen)
  }

  async #open({ passed = async () => undefined, marksUnused = false }: ApiKeyOptions): Promise<void> {
    await this.#tolerate('finish an interrupted write', () => this.#state.recover(KEY_FILE, FORMER_FILE, UNUSED_FILE))
    try {
      this.#current = await readKey(this.#state)
    } catch (error) {
      this.#log(
        'error',
        `API key: ${reasonOf(error)}; only tokens of issuers are accepted until \`receiverd key rotate\` repairs it`,
      )
      return
    }
    const key = this.#current
    if (key === undefined) return this.#first(passed, marksUnused)
    // This writes only if the mode is wrong: a copied file may be readable by everyone.
    await this.#tolerate('restore the mode of its file', () => writeKey(this.#state, key))
    this.#isUnused = marksUnused && (await isMarkedUnused(this.#state, key).catch(() => false))
    // While the option is off, use is not recorded, so the key may have been used in the meantime.
    if (!marksUnused) await this.#forgetUnused()
  }

  async #first(passed: () => Promise<string | undefined>, marksUnused: boolean): Promise<void> {
    const outside = await passed()
    const key = outside ?? generateKey()
    this.#current = key
    this.#isUnused = marksUnused && outside === undefined
    const origin = outside === undefined ? 'generated' : 'taken from systemd'
    try {
      await this.#store(key)
      this.#log('notice', `the first API key was ${origin}; \`receiverd key show\` prints it`)
    } catch (error) {
      this.#isStored = false
      this.#complaint.say(
        `API key: ${reasonOf(error)}; the first one was ${origin}, and lasts until the service restarts`,
      )
    }
  }

  async #store(key: string): Promise<void> {
    if (this.#isUnused) await markUnused(this.#state, key)
    else await this.#state.remove(UNUSED_FILE)
    await writeKey(this.#state, key)
    this.#isStored = true
  }

  async #reread(): Promise<void> {
    try {
      const key = await readKey(this.#state)
      if (key !== undefined) {
        if (key !== this.#current) await this.#takeOver(key)
      } else if (this.#current !== undefined) {
        if (this.#isStored) return this.#complaint.say('API key: its file is gone; keeping the key in force')
        await this.#store(this.#current)
      }
      this.#complaint.end()
    } catch (error) {
      const outcome = this.#current === undefined ? 'only tokens of issuers are accepted' : 'keeping the key in force'
      this.#complaint.say(`API key: ${reasonOf(error)}; ${outcome}`)
    }
  }

  /** Puts in force a key that another program has written. */
  async #takeOver(key: string): Promise<void> {
    const former = this.#current
    this.#putInForce(key)
    if (former !== undefined) await this.#tolerate('remember the former key', () => rememberKey(this.#state, former))
  }

  #putInForce(key: string): void {
    this.#current = key
    this.#isStored = true
    this.used()
    this.#log('notice', 'a new API key is in force; all tokens of the old one are revoked')
    this.#replaced(key)
  }

  #forgetUnused(): Promise<void> {
    return this.#tolerate('record its first use', () => this.#state.remove(UNUSED_FILE))
  }

  /** Does something that is not essential, and only logs a failure. */
  async #tolerate(what: string, act: () => Promise<unknown>): Promise<void> {
    try {
      await act()
    } catch (error) {
      this.#log('warning', `API key: could not ${what}: ${reasonOf(error)}`)
    }
  }
}
