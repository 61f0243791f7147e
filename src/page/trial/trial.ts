import { isPassing, Refusal } from '../client.ts'
import { linkFor, linkWith } from '../credential.ts'
import type { Device } from '../device.ts'
import { openDialog } from '../dialog.ts'
import { h, say } from '../dom.ts'
import type { JsonObject } from '../json.ts'
import * as texts from '../texts.ts'
import { whileShown } from '../while-shown.ts'
import type { AddressAfter } from './address-after.ts'

/** Milliseconds until the first attempt: a change of the network takes a moment to show. */
const FIRST_LOOK_MS = 2_000
const LOOK_MS = 1_000
/** Milliseconds between updates of the time left. */
const COUNT_MS = 1_000
/**
 * Milliseconds for an answer: longer after each attempt in vain, up to a limit. Too short a wait has the streams connect again.
 */
const ANSWER_MS = 2_000
const PATIENCE_MS = 10_000
/** After more failed polls than this, the page follows the device to its new address. */
const LOOKS_BEFORE_MOVE = 1
/** The same where the address is a guess: a radio that changes its network is away for some seconds. */
const LOOKS_BEFORE_GUESS = 7
/** The part of the time in which the goal of a change must come true. */
const GOAL_PART = 0.5
/** Looks without a change on trial before there is none: the device moves first, and puts the change on trial afterwards. */
const LOOKS_FOR_NONE = 5
/** Looks without an answer before the page gives up. */
const VAIN_LOOKS = 30
/** Seconds for which a token is valid that goes to the new address: another device may have it. */
const MOVE_TOKEN = '10m'

/** Where the device will be, and the links that go on there. */
export interface Move extends AddressAfter {
  /** Also keeps the change. */
  readonly link: string
  /** For a change that is kept already. */
  readonly keptLink: string
}

/** The condition for keeping a change, besides that the device can be reached. */
export interface Goal {
  readonly isReached: (system: JsonObject) => boolean
  /** Said where it does not come true, and the change is undone. */
  readonly failure: string
  /** Said where it is not true, and there was nothing to change. */
  readonly unchanged: string
  /** For the link to the new address: what `joining` is made from there. */
  readonly link: string
}

/** A change on trial, as far as is known of it. */
export interface TrialOf {
  /** Its ETag; undefined if the answer was lost. */
  readonly id?: string | undefined
  /** The one of somebody else, which was there before: it is not to be kept. */
  readonly other?: string | undefined
  /** The settings that it changes; a change without all of them is somebody else's. */
  readonly names?: readonly string[]
  /** When the device undoes it, by `performance.now()`. */
  readonly until: number
  /** Whether it was made just now, and may not have taken effect. */
  readonly isNew?: boolean
  readonly move?: Move | undefined
  readonly goal?: Goal | undefined
}

/** A change on trial as the device tells of it. */
export type OnTrial = Pick<TrialOf, 'until'> & { readonly id: string; readonly properties: readonly string[] }

/**
 * Confirms a change as soon as the device is reached with it; shows how long it waits otherwise.
 * @throws {Error} if the change was undone or never made, or nobody can tell.
 */
export async function runTrial(
  device: Device,
  { id: given, other, names = [], until, isNew, move, goal }: TrialOf,
): Promise<void> {
  // Once seen, it is known: after a confirmation without an answer, there may be none on trial any more.
  let id = given
  /** Looks in a row by which none of ours was on trial. */
  let none = 0
  const made = h('p')
  const left = h('p', { role: 'timer' })
  const link = h('p', { hidden: true }, `${texts.trialMoved} `, h('a', { href: move?.link }, move?.address))
  const close = openDialog(texts.trialTitle, [made, left, link], false)
  const began = performance.now()
  const looks = move?.isGuess ? LOOKS_BEFORE_GUESS : LOOKS_BEFORE_MOVE
  const count = () => {
    say(made, id === undefined ? texts.trialUnsure : texts.trial)
    left.textContent = texts.trialLeft(Math.max(0, Math.ceil((until - performance.now()) / 1000)))
  }
  count()
  whileShown(left, COUNT_MS, count)
  try {
    if (isNew) await pause(FIRST_LOOK_MS)
    // At least once: only the device can tell that it is too late.
    for (let attempts = 0; attempts === 0 || performance.now() < until; attempts++) {
      // Where the device moves, the page at its new address has the patience.
      const answerMs = move ? ANSWER_MS : patience(attempts)
      const isReached = goal === undefined || (await look(device, goal, answerMs))
      const found = id === undefined ? await onTrial(device, answerMs) : undefined
      if (found && found.id !== other && names.every(name => found.properties.includes(name))) id = found.id
      // It may yet begin.
      else none = found === undefined ? 0 : none + 1
      if (none > LOOKS_FOR_NONE) throw new Error(texts.trialNone)
      if (none === LOOKS_FOR_NONE && !(await isSettled(device, answerMs))) none--
      if (isReached && id !== undefined && (await confirm(device, id, answerMs))) return
      if (isReached === false && performance.now() - began > GOAL_PART * (until - began)) {
        if (id !== undefined) await undo(device, id).catch(() => undefined)
        throw new Error(goal?.failure)
      }
      // Once: to go there again would cut off a connection that takes its time.
      if (move && isReached !== false && attempts === looks) {
        link.hidden = false
        // The browser would ask whether to leave, with the time of the trial running out.
        device.unsaved.clear()
        location.assign(move.link)
      }
      await pause(LOOK_MS)
    }
    throw new Error(texts.trialUnknown)
  } finally {
    close()
    // The page at the new address may still be awaited, and there is nothing more to be done there.
    if (!link.hidden) stop()
  }
}

/**
 * Keeps the change if the device can be reached; false if it cannot.
 * @param id The ETag of the change, so that no other one is kept.
 * @throws {Error} if the device has undone it already.
 */
async function confirm({ client }: Device, id: string, answerMs: number): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(answerMs)
    await client.send('POST', '/system/confirm', { headers: { 'If-Match': `"${id}"` }, signal })
    return true
  } catch (error) {
    if (isPassing(error)) return false
    throw error instanceof Refusal && [409, 412].includes(error.status) ? new Error(texts.trialLate) : error
  }
}

/** On the page at the new address: the change that has led there, once the device answers; undefined if there is none. */
export async function trialHere(device: Device): Promise<OnTrial | undefined> {
  for (let none = 0, vain = 0; none < LOOKS_FOR_NONE && vain < VAIN_LOOKS; ) {
    const trial = await onTrial(device, patience(vain))
    if (trial) return trial
    if (trial === null) none++
    else vain++
    await pause(LOOK_MS)
  }
  return undefined
}

/** Whether no change is being made: the device makes changes, and previews of them, one after the other. */
function isSettled({ client }: Device, answerMs: number): Promise<boolean> {
  const signal = AbortSignal.timeout(answerMs)
  const preview = client.send('PATCH', '/system?validateOnly=true', { body: {}, signal })
  return preview.then(
    () => true,
    error => error instanceof Refusal && error.status === 409,
  )
}

/** Undoes the change now. */
async function undo({ client }: Device, id: string): Promise<void> {
  await client.send('DELETE', '/system/confirm', { headers: { 'If-Match': `"${id}"` } })
}

/** Whether the goal is reached; undefined if the device is not. */
async function look({ client }: Device, { isReached }: Goal, answerMs: number): Promise<boolean | undefined> {
  const read = client.read<JsonObject>('/system', { signal: AbortSignal.timeout(answerMs) })
  return read.then(isReached, () => undefined)
}

/** The part of the device's status about a change on trial. */
interface Status {
  readonly trial?: { readonly etag: string; readonly properties: readonly string[]; readonly remainingS: number }
}

/** The change that is on trial; null if there is none; undefined if the device does not tell. */
export async function onTrial({ client }: Device, answerMs = ANSWER_MS): Promise<OnTrial | null | undefined> {
  try {
    const signal = AbortSignal.timeout(answerMs)
    const { trial } = await client.read<Status>('/status', { signal })
    if (!trial) return null
    const { etag, properties, remainingS } = trial
    return { id: etag.replaceAll('"', ''), properties, until: performance.now() + remainingS * 1000 }
  } catch {
    return undefined
  }
}

/**
 * Made before the device moves: a link to the page at its new address, with a short-lived token in place of the key. No other
 * credential is sent to an address that may be another device's. If the device cannot make such a token, because its clock is
 * not set, or only a token asks for it, the page there asks to sign in.
 */
export async function prepareMove(
  { client, grants }: Device,
  { address, isGuess }: AddressAfter,
  goal?: Goal,
): Promise<Move> {
  const more = `confirm${goal?.link ?? ''}`
  const bare = { address, isGuess, link: linkWith(more, address), keptLink: address }
  if (!grants.isApiKey) return bare
  const body = { roles: ['admin:rw', 'moderator:rw'], expiresIn: MOVE_TOKEN }
  const answer = await client.send('POST', '/tokens', { body }).catch(() => undefined)
  const { token } = ((await answer?.json()) ?? {}) as { token?: string }
  if (token === undefined) return bare
  return { ...bare, link: linkFor(token, address, `&${more}&moved`), keptLink: linkFor(token, address) }
}

/** Milliseconds to wait for an answer after this many attempts in vain. */
export function patience(attempts: number): number {
  return Math.min(PATIENCE_MS, (1 + attempts) * ANSWER_MS)
}

function pause(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}
