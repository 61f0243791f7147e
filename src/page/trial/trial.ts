import { Refusal } from '../client.ts'
import { linkFor } from '../credential.ts'
import type { Device } from '../device.ts'
import { openDialog } from '../dialog.ts'
import { h } from '../dom.ts'
import { texts } from '../texts.ts'

/** Milliseconds until the first attempt: a change of the network takes a moment to show. */
const FIRST_LOOK_MS = 2_000
const LOOK_MS = 1_000
/** Milliseconds for an answer. */
const ANSWER_MS = 3_000
/** Looks in vain after which the page follows the device to its new address. */
const LOOKS_BEFORE_MOVE = 3
/** Seconds for which a token is valid that goes to the new address: another device may have it. */
const MOVE_TOKEN = '10m'

/** Where the device will be, and the link that goes on there. */
export interface Move {
  readonly address: string
  readonly link: string
}

/**
 * Confirms a change as soon as the device is reached with it; shows how long it waits otherwise.
 * @param move What follows the device to another address.
 * @throws {Error} if the change was undone, or nobody can tell.
 */
export async function runTrial(device: Device, seconds: number, move: Move | undefined): Promise<void> {
  const left = h('p', { role: 'timer' })
  const link = h('p', { hidden: true }, `${texts.trialMoved} `, h('a', { href: move?.link }, move?.address))
  const close = openDialog(texts.trialTitle, [h('p', {}, texts.trial), left, link], false)
  const deadline = performance.now() + seconds * 1000
  const count = () => {
    left.textContent = texts.trialLeft(Math.max(0, Math.ceil((deadline - performance.now()) / 1000)))
  }
  count()
  const timer = setInterval(count, 1_000)
  try {
    await pause(FIRST_LOOK_MS)
    for (let attempts = 0; performance.now() < deadline; attempts++) {
      if (await confirm(device)) return
      // Once: to go there again would cut off a connection that takes its time.
      if (move && attempts === LOOKS_BEFORE_MOVE) {
        link.hidden = false
        location.assign(move.link)
      }
      await pause(LOOK_MS)
    }
    throw new Error(texts.trialUnknown)
  } finally {
    clearInterval(timer)
    close()
  }
}

/**
 * Keeps the change if the device can be reached; false if it cannot.
 * @throws {Error} if the device has undone it already.
 */
export async function confirm({ client }: Pick<Device, 'client'>): Promise<boolean> {
  try {
    await client.send('POST', '/system/confirm', { signal: AbortSignal.timeout(ANSWER_MS) })
    return true
  } catch (error) {
    // A proxy in front of a device that it does not reach answers with 502 or 504.
    if (!(error instanceof Refusal) || error.status === 502 || error.status === 504) return false
    throw error.status === 409 ? new Error(texts.trialLate) : error
  }
}

/**
 * Made before the device moves: a link to the page at its new address, with a short-lived token in place of the key unless
 * the device's clock is not set.
 */
export async function prepareMove({ client, grants }: Device, address: string): Promise<Move> {
  let { credential } = client
  if (grants.isApiKey) {
    const body = { roles: ['admin:rw', 'moderator:rw'], expiresIn: MOVE_TOKEN }
    const answer = await client.send('POST', '/tokens', { body }).catch(() => undefined)
    credential = ((await answer?.json()) as { token: string } | undefined)?.token ?? credential
  }
  return { address, link: linkFor(credential, address, '&confirm') }
}

function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}
