import { createHash } from 'node:crypto'
import { isOfSystem, isUnreadable, reasonOf } from '../../../hal/errors.ts'
import type { Files } from '../../../hal/files/files.ts'
import { Card } from '../../../hal/os/card.ts'
import { CertificateFiles, type Pair } from '../../../hal/os/certificate.ts'
import { isTemporary } from '../../../hal/os/data-partition.ts'
import type { System } from '../../../hal/os/system.ts'
import { Serial } from '../../../hal/serial.ts'
import { deviceLinks } from '../../../hal/settings/network/links.ts'
import { isWifiSet } from '../../../hal/settings/wifi/adapter.ts'
import type { Originals } from '../../../hal/transaction/originals.ts'
import type { ApiKeyStore } from '../../auth/api-key.ts'
import type { Issuers } from '../../auth/issuers.ts'
import { RefusedKey } from '../../auth/key-file.ts'
import { CARD_LINK_MS, MAX_ISSUER_BYTES } from '../../limits.ts'
import type { Log } from '../../log.ts'
import { type FieldError, Problem } from '../../problem.ts'
import type { SystemStore } from '../store.ts'
import { ISSUERS, issuersIn, readIssuers, whyTooMany } from './issuers.ts'
import { type Memory, remember, remembered, type Taken } from './memory.ts'
import { commentedOut, type Given, type Name, type Parsed, parseReceiverTxt } from './receiver-txt.ts'
import { givenIn, merged, nameAt, partsOf, patchOf, setsAddresses, wifiMistakes } from './settings.ts'

const TEXT = 'receiver.txt'
const ERRORS = 'receiver-errors.txt'
const [CERTIFICATE, KEY] = ['certificate.pem', 'key.pem'] as const
const MAX_TEXT_BYTES = 16 * 1024
const MAX_PEM_BYTES = 64 * 1024
/** The usual interfaces of a board. If it has none with this name, another one of the same kind is used. */
const WIRED = 'eth0'
const WIRELESS = 'wlan0'
const LINK_POLL_MS = 250

export interface CardOptions {
  readonly system: System
  /** The files in the state directory. */
  readonly state: Files
  /** The mount point of the boot partition. */
  readonly folder: string
  readonly log: Log
  /** Milliseconds to wait for the interface whose address is on the card. */
  readonly linkMs?: number
}

/** The stores that receive the settings. */
export interface Takers {
  readonly configuration: SystemStore
  readonly keys: ApiKeyStore
  readonly issuers: Issuers
  readonly originals: Originals
}

/** The files on the card that are to be applied. */
interface Found {
  readonly text: string | undefined
  readonly parsed: Parsed
  readonly issuers: Given
  readonly pair: Pair | undefined
  /** Digests of the files, by name. */
  readonly digests: Readonly<Record<string, string>>
  readonly mistakes: readonly string[]
}

/**
 * Applies the settings that the owner of the device put on its card, before the device is served: all of them or, if there
 * is a mistake, none.
 *
 * The power may fail at any moment. Until the settings are remembered, the card is not touched, and the next start applies
 * them again. After that they are not applied again, and the next start continues to remove them from the card.
 */
export class CardTaker {
  readonly #system: System
  readonly #state: Files
  readonly #log: Log
  readonly #card: Card
  readonly #certificates: CertificateFiles
  readonly #linkMs: number
  /** Settings that wait for their interface. What failed is not among them: it is tried again at the next start. */
  #waiting: Given[] = []
  /** Settings on the card that were refused, and whose interface is missing. */
  #refused: Given | undefined

  constructor({ system, state, folder, log, linkMs = CARD_LINK_MS }: CardOptions) {
    this.#linkMs = linkMs
    this.#system = system
    this.#state = state
    this.#log = log
    this.#card = new Card(system, folder)
    this.#certificates = new CertificateFiles(system)
  }

  /**
   * Waits for the interfaces whose address or network is on the card: on some boards they appear after the service starts.
   * Never throws.
   */
  async waitForLink(): Promise<void> {
    const wanted = partsOf(await this.#wanted().catch(() => ({})))
    for (let waitedMs = 0; waitedMs < this.#linkMs; waitedMs += LINK_POLL_MS) {
      // What cannot be read may not be there yet, either.
      const lacking = await this.#lacking(wanted).catch(() => wanted)
      if (lacking.length === 0) return
      await new Promise(resolve => setTimeout(resolve, LINK_POLL_MS))
    }
  }

  /** Applies the settings, and reports mistakes in the log and on the card. Never throws. */
  async take(takers: Takers): Promise<void> {
    try {
      if (await this.#card.isOwn()) await this.#take(takers)
      else this.#log('warning', `${TEXT}: left alone, because it is on another disk than the system`)
    } catch (error) {
      this.#log('error', `${TEXT}: ${reasonOf(error)}`)
    }
  }

  /** Returns the settings that are about to be applied. */
  async #wanted(): Promise<Given> {
    if (!(await this.#card.isOwn())) return {}
    const { given, isDue, stillDue, taken } = await remembered(this.#state)
    const { parsed } = await this.#look(taken)
    // An earlier start has already waited for these.
    return { ...(isDue && !stillDue && given), ...(await this.#located(givenIn(parsed), given)) }
  }

  async #take(takers: Takers): Promise<void> {
    const { memory, mistakes: notAgain } = await this.#again(takers, await this.#remembered())
    // Settings that were applied may still be on the card.
    if (!(await this.#card.isThere())) return
    const found = await this.#look(memory.taken)
    const mistakes = [...found.mistakes]
    const read = { ...givenIn(found.parsed), ...found.issuers }
    const names = [...Object.keys(read), ...(found.pair ? [CERTIFICATE, KEY] : [])]
    const given = await this.#located(read, memory.given)
    const all = merged(memory.given, given)
    let next = memory
    if (mistakes.length === 0 && names.length > 0) {
      mistakes.push(...whyTooMany(issuersIn(all).keys()))
      if (mistakes.length === 0)
        mistakes.push(...(await this.#apply(takers, given, found).catch(error => whyFailed(error, names))))
      if (mistakes.length === 0) {
        const stillDue = (memory.stillDue ?? []).filter(name => !(name in given))
        next = { given: all, ...dueOf(all, stillDue), taken: takenOf(found, memory.taken) }
        await remember(this.#state, next)
        this.#log('notice', `${TEXT}: taken: ${names.join(', ')}`)
      }
    }
    // An interface that cannot be read may not be there yet, either.
    const lacking = mistakes.length === 0 ? [] : await this.#lacking([given]).catch(() => [given])
    this.#refused = lacking[0]
    for (const mistake of mistakes) this.#log('warning', `${TEXT}: ${mistake}`)
    // If the data partition is missing, the applied settings are only in memory, and the next start needs the card again.
    if (!(await isTemporary(this.#system))) await this.#tidy(next, [...notAgain, ...mistakes])
  }

  /**
   * After a factory reset, applies the settings from the card again. A setting that fails does not stop the others. Unless its
   * value is refused, it stays due, as does a setting whose interface is missing.
   * @returns what to remember from now on, and why settings failed.
   */
  async #again(
    takers: Takers,
    memory: Memory,
  ): Promise<{ readonly memory: Memory; readonly mistakes: readonly string[] }> {
    this.#waiting = []
    if (!memory.isDue) return { memory, mistakes: [] }
    const { given, stillDue = Object.keys(given) } = memory
    const isRepeated = memory.stillDue !== undefined
    const mistakes: string[] = []
    const left: string[] = []
    for (const part of partsOf(given)) {
      const names = Object.keys(part).filter(name => name !== 'link')
      if (!names.some(name => stillDue.includes(name))) continue
      if ((await this.#lacking([part])).length > 0) {
        left.push(...names)
        this.#waiting.push(part)
        this.#log('warning', `${TEXT}: ${names.join(', ')}: taken again when its network interface is there`)
        continue
      }
      // Somebody who has set something since it failed must not find the value of the card at the next start.
      if (isRepeated && !(await isUntouched(takers, part))) {
        this.#log('notice', `${TEXT}: ${names.join(', ')}: not taken again, because it has been set since`)
        continue
      }
      const why = await this.#apply(takers, part).catch(error => {
        left.push(...names)
        if (!isOfTrial(error)) return whyFailed(error, names)
        this.#waiting.push(part)
        return []
      })
      mistakes.push(...why.map(mistake => `not taken again after the factory reset: ${mistake}`))
      if (isRepeated && why.length === 0 && !this.#waiting.includes(part))
        this.#log('notice', `${TEXT}: taken again: ${names.join(', ')}`)
    }
    for (const mistake of mistakes) this.#log('warning', `${TEXT}: ${mistake}`)
    const next = { ...memory, stillDue: undefined, ...dueOf(given, left) }
    await remember(this.#state, next)
    return { memory: next, mistakes }
  }

  /** Applies what lacks its interface once that appears in the configuration. Call this after `take`. */
  follow(takers: Takers): void {
    const { configuration } = takers
    const queue = new Serial()
    const takeWaiting = () => {
      const isWaiting = this.#waiting.length > 0 || this.#refused
      // During a trial, nothing else may change.
      if (!isWaiting || configuration.trial || queue.length > 1) return
      queue
        .run(async () => {
          if (this.#refused && (await this.#lacking([this.#refused])).length === 0) await this.#take(takers)
          else if ((await this.#lacking(this.#waiting)).length < this.#waiting.length)
            await this.#again(takers, await this.#remembered())
        })
        .catch(error => {
          // What is left is applied after the trial.
          if (!isOfTrial(error)) this.#log('error', `${TEXT}: ${reasonOf(error)}`)
        })
    }
    configuration.topic.log.onAppend(takeWaiting)
    configuration.onKept(takeWaiting)
  }

  async #remembered(): Promise<Memory> {
    return remembered(this.#state).catch(error => {
      if (!isUnreadable(error)) throw error
      this.#log('error', `the settings that the card gave are lost: ${error.message}`)
      return NOTHING_DUE
    })
  }

  /** Reads the files on the card, except for settings that were applied and not yet removed. */
  async #look(taken?: Taken): Promise<Found> {
    const mistakes: string[] = []
    const digests: Record<string, string> = {}
    const read = async (name: string, limit: number) => {
      const bytes = await this.#card.read(name, limit).catch(error => void mistakes.push(`${name}: ${reasonOf(error)}`))
      if (!bytes || isRest(name, bytes, taken)) return undefined
      digests[name] = digestOf(bytes)
      return bytes
    }
    const bytes = await read(TEXT, MAX_TEXT_BYTES)
    const text = bytes && decode(bytes, mistakes)
    const parsed = text === undefined ? NOTHING_PARSED : parseReceiverTxt(text)
    mistakes.push(...parsed.mistakes)
    const [certificate, key] = [await read(CERTIFICATE, MAX_PEM_BYTES), await read(KEY, MAX_PEM_BYTES)]
    if (!certificate !== !key) mistakes.push(`${certificate ? KEY : CERTIFICATE}: missing; the other one is there`)
    const pair = certificate && key && { certificate: certificate.toString(), key: key.toString() }
    const issuers = await readIssuers(await this.#card.list(ISSUERS), path => read(path, MAX_ISSUER_BYTES), mistakes)
    return { text, parsed, issuers, pair, digests, mistakes }
  }

  /**
   * Applies settings. @returns the mistakes in them; if there are any, nothing was applied.
   * @throws {Problem} if they could not be applied now.
   */
  async #apply(takers: Takers, given: Given, { parsed, pair }: Partial<Found> = {}): Promise<readonly string[]> {
    const { configuration, keys, originals } = takers
    const issuers = issuersIn(given)
    const at = (name: Name) => `${parsed?.lines[name] ? `line ${parsed.lines[name].number}, ` : ''}${name}`
    const apiKey = given['api-key']
    const mistakes = Object.entries(wifiMistakes(given)).map(([name, why]) => `${at(name as Name)}: ${why}`)
    if (apiKey !== undefined) mistakes.push(...(await whyNoKey(keys, apiKey)).map(why => `${at('api-key')}: ${why}`))
    if (pair) mistakes.push(...(await whyNoPair(pair)).map(why => `${CERTIFICATE} and ${KEY}: ${why}`))
    mistakes.push(...whyTooMany([...takers.issuers.all.map(({ name }) => name), ...issuers.keys()]))
    if (mistakes.length > 0) return mistakes
    try {
      const { networks } = configuration.value('wifi') ?? {}
      await configuration.patch(patchOf(given, (await this.#linkFor(given)).name, networks), () => undefined)
    } catch (error) {
      if (!(error instanceof Problem && error.errors)) throw error
      return error.errors.map(refused => `${at(nameAt(refused, given))}: ${whyRefused(refused)}`)
    }
    if (pair) {
      await originals.add([await this.#certificates.original()])
      await this.#certificates.put(pair)
    }
    if (apiKey !== undefined) await keys.replace(apiKey)
    for (const [name, issuer] of issuers) await takers.issuers.put(name, issuer, () => undefined, 'card')
    return []
  }

  /**
   * Adds to an address the kind of interface that it is for: a factory reset goes back to it, even if a card gives Wi-Fi later.
   * A part of an address is for the interface that has the address of the card.
   */
  async #located(given: Given, { address, link }: Given): Promise<Given> {
    if (!setsAddresses(given)) return given
    if (given.address !== undefined || address === undefined) return { ...given, link: await this.#kindFor(given) }
    return link === undefined ? given : { ...given, link }
  }

  /** Returns the kind of interface that an address is for: Wi-Fi if a network was ever set, otherwise the cable. */
  async #kindFor(given: Given): Promise<string> {
    return given['wifi-ssid'] !== undefined || (await isWifiSet(this.#system)) ? 'wlan' : 'ether'
  }

  /** Returns the interface that settings are for. */
  async #linkFor(given: Given): Promise<{ readonly name: string; readonly isThere: boolean }> {
    const links = await deviceLinks(this.#system)
    const isWireless = (given.link ?? (await this.#kindFor(given))) === 'wlan'
    const [wanted, type] = isWireless ? [WIRELESS, 'wlan'] : [WIRED, 'ether']
    const found = links.find(({ name }) => name === wanted) ?? links.find(({ facts }) => facts.Type === type)
    return { name: found?.name ?? wanted, isThere: found !== undefined }
  }

  /** Returns those of the parts whose interface is missing. */
  async #lacking(parts: readonly Given[]): Promise<readonly Given[]> {
    const lacking = await Promise.all(parts.map(async part => needsLink(part) && !(await this.#linkFor(part)).isThere))
    return parts.filter((_, at) => lacking[at])
  }

  /** Removes the applied settings from the card, and updates its file of mistakes. */
  async #tidy(memory: Memory, mistakes: readonly string[]): Promise<void> {
    const { taken } = memory
    const replaced: Record<string, string> = {}
    const removed: string[] = []
    for (const name of Object.keys(taken?.digests ?? {})) {
      const bytes = await this.#card.read(name, MAX_PEM_BYTES).catch(() => undefined)
      if (!bytes || !isRest(name, bytes, taken)) continue
      if (name === TEXT) replaced[TEXT] = taken?.commentedOut ?? ''
      else removed.push(name)
    }
    const report = mistakes.length === 0 ? undefined : `Not used, because of:\n\n${mistakes.join('\n')}\n`
    const present = (await this.#card.read(ERRORS, MAX_PEM_BYTES).catch(() => undefined))?.toString()
    if (report !== undefined && report !== present) replaced[ERRORS] = report
    if (report === undefined && present !== undefined) removed.push(ERRORS)
    await this.#card.update(replaced, removed)
    if (taken) await remember(this.#state, { ...memory, taken: undefined })
  }
}

const NOTHING_DUE: Memory = { given: {}, isDue: false }

/** Returns the members of a memory that mark these names as due. */
function dueOf(given: Given, names: readonly string[]): Pick<Memory, 'isDue' | 'stillDue'> {
  const stillDue = names.filter(name => name in given)
  return stillDue.length === 0 ? { isDue: false } : { isDue: true, stillDue }
}

/** Reports whether the settings need a network interface. */
function needsLink(part: Given): boolean {
  return part['wifi-ssid'] !== undefined || setsAddresses(part)
}

/** Reports whether nobody has set what the settings would set, since the factory reset. */
async function isUntouched({ configuration, issuers, keys }: Takers, part: Given): Promise<boolean> {
  for (const name of Object.keys(patchOf(part, ''))) if (!(await configuration.isOriginal(name))) return false
  const given = issuersIn(part)
  if (issuers.all.some(({ name, source }) => source === 'api' && given.has(name))) return false
  return part['api-key'] === undefined || keys.isFirst()
}

/** Reports whether settings were refused only because a change of a client is on trial. */
function isOfTrial(error: unknown): boolean {
  return error instanceof Problem && error.kind === 'conflict'
}

/** Returns why settings of these names could not be applied now. @throws bugs, and the refusal because of a trial. */
function whyFailed(error: unknown, names: readonly string[]): readonly string[] {
  if (error instanceof Problem && !isOfTrial(error)) return [error.message]
  if (isOfSystem(error)) return [`${names.join(', ')}: ${reasonOf(error)}`]
  throw error
}

const NOTHING_PARSED: Parsed = { lines: {}, mistakes: [] }

function decode(bytes: Buffer, mistakes: string[]): string | undefined {
  const text = bytes.toString()
  if (!bytes.includes(0) && Buffer.from(text).equals(bytes)) return text
  mistakes.push(`${TEXT} is not UTF-8: save it with this encoding`)
  return undefined
}

/** Records the files that were applied. A file that was applied before may still be on the card. */
function takenOf({ text, parsed, digests: { [TEXT]: digest, ...pair } }: Found, before: Taken | undefined): Taken {
  if (text === undefined || digest === undefined || Object.keys(parsed.lines).length === 0)
    return { ...before, digests: { ...before?.digests, ...pair } }
  return { digests: { ...before?.digests, ...pair, [TEXT]: digest }, commentedOut: commentedOut(text) }
}

/** Reports whether a file was applied, or is what a power cut left of one that was being removed. */
function isRest(name: string, bytes: Buffer, taken: Taken | undefined): boolean {
  const digest = taken?.digests[name]
  if (digest === undefined) return false
  // Removing a file overwrites it from its start, and then writes it anew.
  if (digestOf(bytes) === digest || bytes.length === 0 || bytes[0] === 0) return true
  const { lines, mistakes } = parseReceiverTxt(bytes.toString())
  return name === TEXT && Object.keys(lines).length === 0 && mistakes.length === 0
}

/** Adds the name of the interface if the interface itself is refused. */
function whyRefused({ pointer, detail }: FieldError): string {
  const [, name, link, ...more] = pointer.split('/')
  return name === 'network' && link !== undefined && more.length === 0 ? `${link}: ${detail}` : detail
}

function digestOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('base64')
}

async function whyNoKey(keys: ApiKeyStore, key: string): Promise<readonly string[]> {
  try {
    await keys.requireUsable(key)
    return []
  } catch (error) {
    if (error instanceof RefusedKey) return [error.message]
    throw error
  }
}

async function whyNoPair(pair: Pair): Promise<readonly string[]> {
  try {
    await CertificateFiles.requireUsable(pair)
    return []
  } catch (error) {
    if (isUnreadable(error)) return [error.message]
    throw error
  }
}
