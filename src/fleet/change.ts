import { CommandError } from '../cli/failure.ts'
import { Refused } from '../cli/service-client.ts'
import type { Time } from '../cli/update.ts'
import { type JsonObject, pointerStep } from '../json.ts'
import { MAX_CONFIRM_S } from '../limits.ts'
import type { Difference } from '../settings-file/settings-file.ts'
import { type DeviceAnswer, type DeviceClient, Unanswered } from './client.ts'
import { causeIn, type Result } from './outcome.ts'
import { compare, holds, isHidden, refusalOf, schemaOf } from './preview.ts'

export interface ChangeOptions extends Time {
  /** Whether every change is on trial, and not only one that can cut the device off. */
  readonly isTrial: boolean
  /** Milliseconds after which a device that has not answered a change is given up; a change on trial gets its full time. */
  readonly lostMs: number
}

/** Seconds that a change is on trial. */
const TRIAL_S = 60
/** Milliseconds for a network to change, before the device is asked whether it is still there. */
const SETTLE_MS = 10_000
const RETRY_MS = 1_000
const UNSEEN = 'whether the change was made cannot be seen, because it sends passwords alone'

/** Whether a device has the values of a change; `unseen` if that cannot be determined. */
type Fate = 'made' | 'not made' | 'unseen'

/**
 * Gives a device settings, as far as they differ. When this resolves, the outcome is known: after a lost answer, the device is
 * asked what it has.
 * @throws {CommandError} if the device does not have all of them, saying what it did.
 */
export async function changeDevice(
  client: DeviceClient,
  settings: JsonObject,
  options: ChangeOptions,
): Promise<Result> {
  const comparison = await compare(client, settings)
  if (comparison.leftOut.length > 0) throw new CommandError(refusalOf(comparison))
  const { patch, differences, etag } = comparison
  if (Object.keys(patch).length === 0) return { state: 'unchanged' }
  const { host } = client
  const change = new Change(client, differences, options)
  const after = await change.make(patch as JsonObject)
  // The device already had the password that was sent.
  const isSame = after !== undefined && after === etag
  if (isSame) return { state: 'unchanged' }
  const moved = client.host !== host && {
    note: `it was reached at ${client.host}; if the fleet file has its former address, replace that`,
  }
  return { state: 'changed', changes: changesOf(differences), ...moved }
}

/** The hosts at which a change may make a device appear, besides the one where it is. */
function hostsAfter(differences: readonly Difference[], host: string): readonly string[] {
  const hosts = differences.map(({ path, after }) => {
    if (typeof after !== 'string') return ''
    if (path[0] === 'network' && path.at(-1) === 'address') return after.replace(/\/.*/s, '')
    // mDNS takes the first part of a host name alone.
    return path[0] === 'hostname' && /\.local$/i.test(host) ? `${after.split('.', 1)[0]}.local` : ''
  })
  return hosts.filter(each => each !== '' && each !== host)
}

/** Differences as a report lists them. */
export function changesOf(differences: readonly Difference[]): NonNullable<Result['changes']> {
  return differences.map(({ path, before = null, after }) => ({
    pointer: path.map(pointerStep).join(''),
    before,
    after,
  }))
}

/** One change of a device. */
class Change {
  readonly #client: DeviceClient
  readonly #differences: readonly Difference[]
  readonly #options: ChangeOptions

  constructor(client: DeviceClient, differences: readonly Difference[], options: ChangeOptions) {
    this.#client = client
    this.#differences = differences
    this.#options = options
  }

  /** Makes the change. @returns the ETag of the answer; undefined if the answer was lost. */
  async make(patch: JsonObject): Promise<string | undefined> {
    const { isTrial, lostMs, now } = this.#options
    const lockOutS = await this.#lockOutS(patch)
    const trialS = lockOutS > 0 ? lockOutS : isTrial ? TRIAL_S : 0
    const began = now()
    const answer = await this.#send(patch, trialS)
    this.#client.lookAt(hostsAfter(this.#differences, this.#client.host))
    const isAnswered = !(answer instanceof CommandError)
    const until = began + 1000 * trialS
    if (trialS === 0) {
      if (!isAnswered) await this.#find(answer, now() + lostMs)
    } else if (!isAnswered || answer.headers['confirm-within'] !== undefined) {
      if (lockOutS > 0) await this.#options.wait(SETTLE_MS)
      const etag = isAnswered ? answer.etag : await this.#find(answer, until)
      if (etag !== undefined) await this.#confirm(etag, trialS, until)
    }
    return isAnswered ? answer.etag : undefined
  }

  /** Seconds within which a change of these settings must be confirmed, because it can cut the device off; 0 otherwise. */
  async #lockOutS(patch: JsonObject): Promise<number> {
    const { properties = {} } = await schemaOf(this.#client)
    const times = Object.keys(patch).map(name => properties[name]?.['x-confirm-within'])
    // No real device has a longer one, so nobody waits for one that claims it.
    return Math.max(...times.map(time => (typeof time === 'number' ? Math.min(time, MAX_CONFIRM_S) : 0)))
  }

  /** Sends the change. @returns the answer, or the error if the outcome is unknown. */
  async #send(patch: JsonObject, trialS: number): Promise<DeviceAnswer | CommandError> {
    const path = trialS > 0 ? `/system?confirmWithin=${trialS}` : '/system'
    try {
      return await this.#client.send('PATCH', path, patch)
    } catch (error) {
      // A server in front answers 503 for a service that has exited, perhaps in the middle of the change.
      if (error instanceof Unanswered || (error instanceof Refused && error.status === 503)) return error
      throw error
    }
  }

  /**
   * Finds out whether a change was made whose answer was lost.
   * @param cause Why there was no answer.
   * @param until When to give up, by the monotonic clock.
   * @returns the ETag of its trial; undefined without one.
   */
  async #find(cause: CommandError, until: number): Promise<string | undefined> {
    const { wait, now } = this.#options
    for (;;) {
      try {
        await this.#settled()
        const { body: status } = await this.#client.send('GET', '/status')
        const fate = await this.#fate()
        if (fate === 'not made') throw new Lost(`the change was not made: ${cause.message}; give the command again`)
        if (fate === 'unseen') throw new Lost(`${cause.message}; ${UNSEEN}; give the command again`)
        const { trial } = status as { readonly trial?: { readonly etag?: string } }
        return trial?.etag
      } catch (error) {
        if (error instanceof Lost) throw error
        if (now() >= until) throw new CommandError(`it has not answered since the change was sent: ${causeIn(error)}`)
        await wait(RETRY_MS)
      }
    }
  }

  /** Resolves when no change is being made: a device makes changes, and previews of them, one after the other. */
  async #settled(): Promise<void> {
    try {
      await this.#client.send('PATCH', '/system?validateOnly=true', {})
    } catch (error) {
      // A change is on trial, and so it is made.
      if (!(error instanceof Refused && error.status === 409)) throw error
    }
  }

  async #fate(): Promise<Fate> {
    if (this.#differences.every(isHidden)) return 'unseen'
    const { body: system } = await this.#client.send('GET', '/system')
    return holds(system, this.#differences) ? 'made' : 'not made'
  }

  async #confirm(etag: string, trialS: number, until: number): Promise<void> {
    const { wait, now } = this.#options
    for (;;) {
      try {
        if (await this.#isConfirmed(etag)) return
        const fate = await this.#fate()
        // A device that restarted after the confirmation has forgotten it.
        if (fate === 'made') return
        const undone = `not confirmed within ${trialS} s, or it restarted`
        if (fate === 'not made') throw new Lost(`it has undone the change: ${undone}`)
        throw new Lost(`it may have undone the change (${undone}): ${UNSEEN}; give the command again`)
      } catch (error) {
        if (error instanceof Lost || (error instanceof Refused && error.status < 500)) throw error
        if (now() >= until)
          throw new CommandError(`it has not answered after the change, and undoes it by itself: ${causeIn(error)}`)
        await wait(RETRY_MS)
      }
    }
  }

  /** @returns false if the device has no such change on trial. */
  async #isConfirmed(etag: string): Promise<boolean> {
    try {
      await this.#client.send('POST', '/system/confirm', undefined, etag)
      return true
    } catch (error) {
      if (error instanceof Refused && error.status === 409) return false
      throw error
    }
  }
}

/** A known outcome, which asking again would not change. */
class Lost extends CommandError {}
