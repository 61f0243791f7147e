import { generateKey } from '../auth/key-file.ts'
import { CommandError } from '../cli/failure.ts'
import { Refused } from '../cli/service-client.ts'
import type { Member } from './access.ts'
import type { DeviceClient } from './client.ts'
import { Mismatch } from './connection.ts'
import type { KeyFile, Keys } from './key-file.ts'
import { causeIn, type Result } from './outcome.ts'
import { report } from './report.ts'
import { countOf, eachOf, type RollOutOptions } from './waves.ts'

export interface RotateOptions extends Omit<RollOutOptions, 'waves' | 'isKeptGoing'> {
  /** Whether to do it without asking. */
  readonly isSure: boolean
  /** Whether the devices also remove the issuers that were added with the old keys. */
  readonly removeIssuers: boolean
  readonly wait: (ms: number) => Promise<unknown>
}

interface Rotating {
  readonly keys: Keys & { readonly next: string }
  /** Whether the new key is that of an earlier attempt. */
  readonly isGoingOn: boolean
}

/** The pin that is named may be that of a device that only claims to be this one. */
const OTHER =
  'another device answers there, or it was reset: compare that with its screen, or with receiverd key show --verbose on it, before you write it into the fleet file, and NAME,KEY into the key file'
/** Attempts to learn which key a device has, and milliseconds between two. */
const ATTEMPTS = 5
const RETRY_MS = 1_000
/** Milliseconds to wait for more devices before the key file is written once for all of them. */
const GATHER_MS = 200

/**
 * Replaces the API key of each device. Every new key is in the key file before any device gets it, and the old one stays there
 * until its device is known to have the new one: whatever is lost or interrupted, one of the two keys in the file is in force.
 * @returns the exit status.
 * @throws {CommandError} if no device was started with.
 */
export async function rotateKeys(members: readonly Member[], file: KeyFile, options: RotateOptions): Promise<number> {
  const { stop, ui, isSure, removeIssuers, wait } = options
  const question = `Replace the API keys of ${countOf(members.length)}? Every token made from them is revoked${removeIssuers ? ', and every issuer added with them is removed' : ''}.`
  if (!isSure && !(await ui.ask(question))) throw new CommandError('no key was replaced')
  // Somebody may have edited the file while the question waited.
  const present = await file.read()
  const rotating = new Map(members.map(member => [member, rotatingOf(member, present)]))
  await file.change(new Map(Array.from(rotating, ([{ device }, { keys }]) => [device.name, keys])))

  const settled = new Settled(file, wait)
  const progress = (done: number) => `Replacing keys: ${done} of ${members.length}`
  const outcomes = await eachOf(members, options, progress, async member => {
    const each = rotating.get(member)
    if (!each) throw new Error('a device that is not rotated')
    return rotate(member, each, settled, options)
  })
  return report(ui, outcomes, stop.aborted)
}

function rotatingOf({ device, keys: before }: Member, present: ReadonlyMap<string, Keys>): Rotating {
  const keys = present.get(device.name) ?? before
  if (!keys) throw new CommandError(`${device.name} has no key in the key file`)
  return { keys: { key: keys.key, next: keys.next ?? generateKey() }, isGoingOn: keys.next !== undefined }
}

/**
 * If an earlier attempt was interrupted, its key may be in force. So the device is given that key first, and then another one:
 * a rotation must not end with a key that was in the file before.
 */
async function rotate(
  member: Member,
  { keys, isGoingOn }: Rotating,
  settled: Settled,
  { removeIssuers, wait }: RotateOptions,
) {
  const { name } = member.device
  const client = member.client()
  /** @param isNew Whether no attempt has sent the new key yet. */
  const replace = async ({ key, next }: Rotating['keys'], isNew: boolean) => {
    try {
      return await give(
        client.as(key),
        client.as(next),
        { apiKey: next, ...(removeIssuers && { removeIssuers }) },
        wait,
      )
    } catch (error) {
      // The device refused the new key itself, or never got it, so that key is not in force.
      if (isRefusedKey(error) || (isNew && error instanceof Replaced)) await settled.add(name, { key, next: undefined })
      throw error
    }
  }
  let issuers = await replace(keys, !isGoingOn)
  let key = keys.next
  if (isGoingOn) {
    const next = generateKey()
    await settled.add(name, { key, next })
    issuers = await replace({ key, next }, true)
    key = next
  }
  await settled.add(name, { key, next: undefined })
  const note = issuers.length === 0 ? {} : { note: `tokens of these issuers stay valid: ${issuers.join(', ')}` }
  return { state: 'changed', ...note } satisfies Result
}

/** The body of `POST /api-key`. A device that knows no issuers refuses to remove them. */
type NewKey = {
  readonly apiKey: string
  readonly removeIssuers?: boolean
}

/**
 * Gives a device a new key, and asks until it is known to have it.
 * @param fresh A client that uses the new key.
 * @returns the issuers whose tokens the device still accepts.
 */
async function give(
  old: DeviceClient,
  fresh: DeviceClient,
  body: NewKey,
  wait: RotateOptions['wait'],
): Promise<readonly string[]> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await giveOnce(old, fresh, body)
    } catch (error) {
      if (error instanceof Mismatch) {
        const why = `${error.message}; ${OTHER}`
        throw attempt === 1 ? new Replaced(why) : new CommandError(why)
      }
      const isPassing =
        error instanceof Refused ? error.status === 503 || error.status === 429 : !(error instanceof Lost)
      if (!isPassing) throw error
      if (attempt >= ATTEMPTS) throw new CommandError(`${causeIn(error)}; the key file has both keys, one is in force`)
      await wait(RETRY_MS)
    }
  }
}

async function giveOnce(old: DeviceClient, fresh: DeviceClient, body: NewKey): Promise<readonly string[]> {
  try {
    return await put(old, body)
  } catch (error) {
    if (!isUnauthorized(error)) throw error
    // The old key is refused: the device may have the new one already.
    return await put(fresh, body).catch(why => {
      if (!isUnauthorized(why)) throw why
      throw new Lost(
        'it takes neither its key nor the one that is to replace it: somebody else has changed it, or the file is old',
      )
    })
  }
}

/**
 * Sends a new key. One that is already in force changes nothing.
 * @returns the issuers that stay; none from a device that knows no issuers.
 */
async function put(client: DeviceClient, wanted: NewKey): Promise<readonly string[]> {
  const { body } = await client.send('POST', '/api-key', wanted)
  if (body.apiKey !== wanted.apiKey) throw new Lost('it has answered with another key than it was given')
  return Array.isArray(body.issuers) ? body.issuers.map(String) : []
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof Refused && error.status === 401
}

function isRefusedKey(error: unknown): boolean {
  return error instanceof Refused && error.status === 422 && error.errors.some(({ pointer }) => pointer === '/apiKey')
}

/** A failure that asking again would not solve. */
class Lost extends CommandError {}

/** Another device answers, or the same one after a factory reset. Nothing was sent to it. */
class Replaced extends CommandError {}

/** Writes which keys are in force, for several devices at once. */
class Settled {
  readonly #file: KeyFile
  readonly #wait: RotateOptions['wait']
  #waiting = new Map<string, Keys>()
  #written: Promise<void> | undefined

  constructor(file: KeyFile, wait: RotateOptions['wait']) {
    this.#file = file
    this.#wait = wait
  }

  /** Resolves when the keys are durable. */
  add(name: string, keys: Keys): Promise<void> {
    this.#waiting.set(name, keys)
    this.#written ??= this.#wait(GATHER_MS).then(() => {
      const all = this.#waiting
      this.#waiting = new Map()
      this.#written = undefined
      return this.#file.change(all)
    })
    return this.#written
  }
}
