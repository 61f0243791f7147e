import { jsonOf, Unreachable } from '../client.ts'
import { type Device, idOf } from '../device.ts'
import { ask } from '../dialog.ts'
import { h } from '../dom.ts'
import type { JsonObject } from '../json.ts'
import type { Schema } from '../schema.ts'
import * as texts from '../texts.ts'
import { addressAfter } from './address-after.ts'
import { type Goal, type OnTrial, onTrial, patience, prepareMove, runTrial } from './trial.ts'

/** Milliseconds for the answer to a change that moves the device to another address. */
const MOVE_ANSWER_MS = 4_000
/** The same where the address is a guess: the device answers unless it is gone, and time is left to look for it there. */
const GUESS_ANSWER_MS = 15_000
/** Looks for a change of somebody else. */
const LOOKS = 3

export interface Sent {
  /** The schemas of the settings in it, by name. */
  readonly settings: Readonly<Record<string, Schema>>
  readonly body: JsonObject
  /** Called when the device has taken it. */
  readonly taken?: () => void
  /** The condition for keeping the change. */
  readonly goal?: Goal
}

/**
 * Sends a patch. A change that can lock its maker out is on trial until the device is reached again.
 * @returns its outcome, to be shown.
 */
export async function sendPatch(
  device: Device,
  { settings, body, taken = () => undefined, goal }: Sent,
): Promise<string> {
  const trials = Object.keys(body).map(name => settings[name]?.['x-confirm-within'] ?? 0)
  const trialS = Math.max(0, ...trials)
  const after = addressAfter(body, device.system.value)
  const move = trialS > 0 && after !== undefined ? await prepareMove(device, after, goal) : undefined
  // Should the answer be lost, nobody else's change is taken for ours: not that one, nor one of other settings.
  const other = trialS > 0 ? await trialOfOther(device) : null
  const began = performance.now()
  const returns = device.returns.value
  try {
    const path = trialS > 0 ? `/system?confirmWithin=${trialS}` : '/system'
    // The answer is lost with the old address, and the change must be kept from the new one in time.
    const signal = move && AbortSignal.timeout(move.isGuess ? GUESS_ANSWER_MS : MOVE_ANSWER_MS)
    const response = await device.client.send('PATCH', path, { body, ...(signal && { signal }) })
    const system = await jsonOf<JsonObject>(response)
    taken()
    // A new connection has told everything, or will. What is later, that or the answer, nobody knows.
    if (returns === device.returns.value) device.adopt(system, idOf(response))
    const givenS = response.headers.get('Confirm-Within')
    if (givenS === null && goal && !goal.isReached(system)) throw new Error(goal.unchanged)
    if (givenS === null) return texts.saved
    const until = performance.now() + Number(givenS) * 1000
    await runTrial(device, { id: idOf(response), until, isNew: true, move, goal })
  } catch (error) {
    if (trialS === 0 || !(error instanceof Unreachable)) throw error
    // With a move, the answer was awaited long enough.
    const sent = { other: other?.id, names: Object.keys(body) }
    await runTrial(device, { ...sent, until: began + trialS * 1000, isNew: !move, move, goal })
    taken()
  }
  // It may have been kept over a connection that the browser had already. With a new one, it may not reach the device here.
  if (move && !move.isGuess)
    ask({
      title: texts.movedTitle,
      content: [h('p', {}, `${texts.moved} `, h('a', { href: move.keptLink }, move.address))],
      go: () => undefined,
    })
  return texts.trialKept
}

/** The change that is on trial; null if there is none. @throws {Unreachable} if the device does not tell, as that change may cause. */
async function trialOfOther(device: Device): Promise<OnTrial | null> {
  for (let look = 0; look < LOOKS; look++) {
    const found = await onTrial(device, patience(look))
    if (found !== undefined) return found
  }
  throw new Unreachable(texts.notSent)
}
