import { isUnreadable, reasonOf } from '../../hal/errors.ts'
import type { Files } from '../../hal/files/files.ts'
import type { Stop } from '../../hal/files/watcher.ts'
import { Serial } from '../../hal/serial.ts'
import type { Undo } from '../../hal/setting.ts'
import { MAX_ISSUER_BYTES, MAX_ISSUERS, POLL_MS, SETTLE_MS } from '../limits.ts'
import { Complaint, type Log } from '../log.ts'
import { type GivenIssuer, ISSUER_NAME, type Issuer, issuerFile, issuerIn, issuerOf, type Source } from './issuer.ts'

const FOLDER = '/etc/receiverd/issuers'
const SUFFIX = '.json'
/** The files hold only public keys. */
const MODE = 0o644
/** Stands in place of a setting in the records of original files. */
const ORIGINAL = 'issuers'

const REFUSED = 'its tokens are refused'

/** Thrown when the maximum number of issuers exists already. */
export class TooManyIssuers extends Error {}

export interface IssuersOptions {
  readonly system: Files
  readonly log: Log
  /** Durably records a file before its first change, for a factory reset, in place of records that are needless by now. */
  readonly recordOriginal: (original: Undo, isNeedless: (undo: Undo) => boolean) => Promise<void>
}

/** The issuers in force, and their files, named `NAME.json`. A file that cannot be used grants nothing. */
export class Issuers {
  readonly #options: IssuersOptions
  /** Makes reads and changes take turns. */
  readonly #queue = new Serial()
  readonly #stops: Stop[] = []
  readonly #complaint: Complaint
  /** Why files cannot be used, as already logged. */
  #wrong: ReadonlyMap<string, string> = new Map()
  #inForce: ReadonlyMap<string, Issuer> = new Map()
  #settling: NodeJS.Timeout | undefined
  #changed: () => void = () => undefined

  constructor(options: IssuersOptions) {
    this.#options = options
    this.#complaint = new Complaint(options.log)
  }

  /** Reads the files, and watches them from then on. @param changed Called after each change of the issuers in force. */
  async start(changed: () => void): Promise<void> {
    const { system } = this.#options
    await this.#queue.run(() => this.#recover())
    await this.#queue.run(() => this.#read())
    this.#changed = changed
    const reload = () => {
      this.#settling ??= setTimeout(() => {
        this.#settling = undefined
        this.#queue.run(() => this.#read())
      }, SETTLE_MS)
    }
    const poll = setInterval(reload, POLL_MS).unref()
    this.#stops.push(system.watch(`${FOLDER}/*`, reload), () => clearInterval(poll))
    // A file may have changed between the first read and the start of the watch.
    reload()
  }

  /** Resolves once a change in progress is done. */
  async stop(): Promise<void> {
    for (const stop of this.#stops) stop()
    clearTimeout(this.#settling)
    await this.#queue.run(async () => undefined)
  }

  /** The issuers in force, sorted by name. */
  get all(): readonly Issuer[] {
    return [...this.#inForce.values()]
  }

  get(name: string): Issuer | undefined {
    return this.#inForce.get(name)
  }

  /**
   * Stores an issuer durably, and puts it in force.
   * @param name A name that matches `ISSUER_NAME`.
   * @param given An issuer whose key can be used.
   * @param precondition Called when the turn of this change has come; throws if the issuer must not be changed.
   * @returns whether an issuer of this name was in force before.
   * @throws {TooManyIssuers}; the system's own errors.
   */
  put(name: string, given: GivenIssuer, precondition: () => void, source: Source = 'api'): Promise<boolean> {
    return this.#queue.run(async () => {
      precondition()
      const isKnown = this.#inForce.has(name)
      if (!isKnown && this.#inForce.size >= MAX_ISSUERS) throw new TooManyIssuers()
      await this.#recordOriginal(name)
      await this.#options.system.writeAtomic(pathOf(name), issuerFile(given, source), MODE)
      const issuer = issuerOf(name, given, source)
      await this.#read(known => known.set(name, issuer))
      return isKnown
    })
  }

  /** Removes an issuer durably. @returns whether it was in force. */
  remove(name: string, precondition: () => void): Promise<boolean> {
    return this.#queue.run(async () => {
      precondition()
      if (!this.#inForce.has(name)) return false
      await this.#remove(name)
      return true
    })
  }

  /** Removes the issuers that were added by clients of the API. @returns their names. */
  removeOwn(precondition: () => void): Promise<string[]> {
    return this.#queue.run(async () => {
      precondition()
      const names = this.all.filter(({ source }) => source === 'api').map(({ name }) => name)
      for (const name of names) await this.#remove(name)
      return names
    })
  }

  async #remove(name: string): Promise<void> {
    await this.#recordOriginal(name)
    await this.#options.system.remove(pathOf(name))
    await this.#read(known => known.delete(name))
  }

  async #recordOriginal(name: string): Promise<void> {
    const { system, recordOriginal } = this.#options
    const present = new Set((await system.list(FOLDER)).map(file => `${FOLDER}/${file}`))
    // Issuers may come and go under ever new names: the records of those that are gone must not fill the disk.
    const isNeedless = ({ setting, images }: Undo) =>
      setting === ORIGINAL && images.every(({ path, entry }) => entry.kind === 'absent' && !present.has(path))
    const images = [await system.capture(pathOf(name))]
    await recordOriginal({ setting: ORIGINAL, previous: null, next: null, images }, isNeedless)
  }

  async #recover(): Promise<void> {
    try {
      const names = (await this.#options.system.list(FOLDER)).join()
      const interrupted = names.matchAll(/\.([a-z0-9-]+\.json)\.receiverd-/g)
      await this.#options.system.recover(...Array.from(interrupted, ([, name]) => `${FOLDER}/${name}`))
    } catch (error) {
      this.#options.log('warning', `issuers: could not finish an interrupted write: ${reasonOf(error)}`)
    }
  }

  /**
   * Reads all files. Never throws: an issuer whose file the system refuses to read stays as it is.
   * @param change Makes the change that was just stored. It takes effect even if the files cannot be read.
   */
  async #read(change: (known: Map<string, Issuer>) => void = () => undefined): Promise<void> {
    const { system, log } = this.#options
    const before = this.#inForce
    const known = new Map(before)
    change(known)
    const found = await readIssuers(system, known).catch((error): Found => {
      this.#complaint.say(`issuers: ${reasonOf(error)}; keeping those in force`)
      return { issuers: [...known.values()], wrong: this.#wrong }
    })
    if (found.wrong !== this.#wrong) this.#complaint.end()
    for (const [file, why] of found.wrong) if (this.#wrong.get(file) !== why) log('warning', `issuers, ${file}: ${why}`)
    this.#wrong = found.wrong
    const next = new Map(found.issuers.map(issuer => [issuer.name, same(issuer, before.get(issuer.name))]))
    if (isSame(before, next)) return
    this.#inForce = next
    this.#logChanges(before, next)
    this.#changed()
  }

  #logChanges(before: ReadonlyMap<string, Issuer>, next: ReadonlyMap<string, Issuer>): void {
    const { log } = this.#options
    for (const [name, issuer] of next)
      if (before.get(name) !== issuer)
        log('notice', `the issuer ${name} is in force: ${issuer.algorithm}, ${issuer.roles.join(', ')}`)
    for (const name of before.keys())
      if (!next.has(name)) log('notice', `the issuer ${name} is gone, and its tokens are refused`)
  }
}

interface Found {
  /** Sorted by name. */
  readonly issuers: readonly Issuer[]
  /** Why the other files cannot be used, by file name. */
  readonly wrong: ReadonlyMap<string, string>
}

/**
 * Reads the issuers of a system.
 * @param known Issuers that stay if the system refuses to read their files.
 * @throws the system's own errors if the folder cannot be read.
 */
export async function readIssuers(system: Files, known: ReadonlyMap<string, Issuer> = new Map()): Promise<Found> {
  const issuers: Issuer[] = []
  const wrong = new Map<string, string>()
  for (const file of await system.list(FOLDER)) {
    if (file.startsWith('.') || !file.endsWith(SUFFIX)) continue
    const name = file.slice(0, -SUFFIX.length)
    if (!ISSUER_NAME.test(name)) {
      wrong.set(file, `the name of the file must be 1 to 32 characters of a-z, 0-9 and -; ${REFUSED}`)
      continue
    }
    try {
      const issuer = await readIssuer(system, name)
      if (issuer && issuers.length < MAX_ISSUERS) issuers.push(issuer)
      else if (issuer) wrong.set(file, `there are ${MAX_ISSUERS} issuers already; ${REFUSED}`)
    } catch (error) {
      const issuer = isUnreadable(error) ? undefined : known.get(name)
      if (issuer) issuers.push(issuer)
      wrong.set(file, `${reasonOf(error)}; ${issuer ? 'it stays as it is' : REFUSED}`)
    }
  }
  return { issuers, wrong }
}

/**
 * Removes the issuers that were added by clients of the API. Makes no record for a factory reset: the API made it before it
 * wrote the file.
 * @throws the system's own errors.
 */
export async function removeOwnIssuers(system: Files): Promise<void> {
  const { issuers } = await readIssuers(system)
  for (const { name, source } of issuers) if (source === 'api') await system.remove(pathOf(name))
}

async function readIssuer(system: Files, name: string): Promise<Issuer | undefined> {
  const bytes = await system.readBytes(pathOf(name), MAX_ISSUER_BYTES)
  return bytes && issuerIn(name, bytes)
}

function pathOf(name: string): string {
  return `${FOLDER}/${name}${SUFFIX}`
}

/** Returns the previous object if the issuer is unchanged: tokens compare issuers by identity first. */
function same(issuer: Issuer, before: Issuer | undefined): Issuer {
  const isSame =
    before !== undefined &&
    before.keyId === issuer.keyId &&
    before.maxAgeS === issuer.maxAgeS &&
    before.source === issuer.source &&
    before.roles.join() === issuer.roles.join()
  return isSame ? before : issuer
}

function isSame(a: ReadonlyMap<string, Issuer>, b: ReadonlyMap<string, Issuer>): boolean {
  return a.size === b.size && [...a].every(([name, issuer]) => b.get(name) === issuer)
}
