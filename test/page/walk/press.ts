/** Presses, and the first invariant: a press does what it says, once, or nothing. */
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../../support/eventually.ts'
import type { Random } from '../../support/random.ts'
import { KEY_REPLACED, type Model, REPLACE_KEY, textOf } from './model.ts'
import type { Fault } from './proxy.ts'
import type { Room } from './room.ts'
import type { Step } from './steps.ts'
import type { Thumb } from './thumb.ts'
import type { Hit } from './watcher.ts'

/** Milliseconds between the look and the tap: less than a row that has moved takes no finger. */
const ON_ITS_WAY_MS = 300
/** A control that came under the finger later than this is not the one that was meant. */
const STEADY_MS = 250
const BAD_REQUEST = 400
/** Presses that ask the device for something, or throw away entries. With any other, nothing is lost. */
const GRAVE =
  /^((Let in|Deny|End|Save|Discard|Use that|Prefer): |(Replace the API key|Join|Join anyway|Remove|Install)$|Discard [\d.]+$)/
/** These are refused during a trial; the last ones also where others have changed the list. */
const REFUSED: readonly (readonly [RegExp, readonly number[]])[] = [
  [/^Save: /, [409]],
  [/^(Prefer: |(Join|Join anyway|Remove)$)/, [409, 422]],
  [/^(Install|Discard|Discard [\d.]+)$/, [404, 409]],
]

export interface Around {
  /** Happens while the finger is on its way. */
  readonly news?: Step
  readonly fault?: Fault
  /** Strikes the confirmation that follows. */
  readonly then?: Fault | undefined
  /** Somebody leaves the page before the answer. */
  readonly isLeft?: true
  /** The thumb taps once more, by mistake. */
  readonly isTwice?: true
}

export class Press {
  /** How many have asked the device for something. */
  asked = 0
  readonly #room: Room
  readonly #model: Model
  readonly #thumb: Thumb
  readonly #random: Random

  constructor(room: Room, model: Model, thumb: Thumb, random: Random) {
    this.#room = room
    this.#model = model
    this.#thumb = thumb
    this.#random = random
  }

  /** A press that asks the device for nothing. */
  async plain(name: string): Promise<Hit | undefined> {
    const hit = await this.#thumb.tap(name)
    if (hit) this.#meant(hit, name)
    return hit
  }

  async goTo(view: string): Promise<void> {
    const hit = await this.plain(view)
    if (hit?.isAimed) await eventually(async () => (await this.#thumb.see()).view === view)
  }

  /** The page does not send a bundle any more. */
  sent(): Promise<unknown> {
    return eventually(async () => {
      const { buttons, isSigningIn } = await this.#thumb.see()
      return isSigningIn || !buttons.includes('Cancel')
    })
  }

  async look(): Promise<void> {
    await this.plain('Look for networks')
    await this.#answered(false)
  }

  reconnected(): Promise<unknown> {
    return eventually(async () => (await this.#thumb.see()).state === 'Connected')
  }

  /** A press that asks the device for something. */
  async asking(name: string, { news, fault, then, isLeft, isTwice }: Around = {}): Promise<void> {
    const { proxy } = this.#room
    proxy.arm(fault, then)
    if (REFUSED.some(([names]) => names.test(name))) this.#model.ends.reset()
    let told: Promise<string | undefined> = Promise.resolve(undefined)
    const meanwhile =
      news &&
      (() => {
        told = news.act().then(() => undefined, String)
        return sleep(this.#random.below(ON_ITS_WAY_MS))
      })
    const againMs = isTwice && this.#random.below(ON_ITS_WAY_MS)
    const hit = await this.#thumb.tap(name, meanwhile, againMs)
    const promises = hit ? this.#model.promisesOf(hit) : ['']
    if (hit) this.#meant(hit, name)
    if (!promises.includes('')) await eventually(() => proxy.first)
    const answer = await proxy.first?.answered
    const struck = proxy.first?.fault
    if (!then) proxy.arm()
    const isRefused =
      struck?.kind === 'refused' ||
      REFUSED.some(([names, statuses]) => names.test(name) && answer && statuses.includes(answer.status))
    if (hit && !isRefused) this.#done(hit, news, struck)
    const failure = await told
    // Of two decisions about one device, one may come too late.
    if (failure !== undefined && !news?.guest) throw new Error(failure)
    const isLong = fault?.kind === 'late' || this.#model.trial?.isOwn
    const goesOn = isLeft ?? (isLong && this.#random.chance(0.5))
    if (!goesOn) await this.#answered(name === REPLACE_KEY && answer !== undefined)
    const sent = proxy.take()
    if (sent.length > 0) this.asked++
    if (hit && !goesOn && !struck) this.#model.answered(hit.name)
    const asked = sent.filter((one, at) => at === 0 || !(one.mayBeRepeat || this.#model.isFollowUp(one))).map(textOf)
    // Where the first tap has done nothing, the second is another press.
    const most = isTwice && answer && answer.status >= BAD_REQUEST ? 2 : 1
    if (asked.length > most || new Set(asked).size > 1 || !promises.includes(asked[0] ?? ''))
      throw new Error(
        `pressed: ${hit?.name}\nexpected: ${promises.join('\nor: ')}\nasked for: ${asked.join('\nand: ')}`,
      )
  }

  #done(hit: Hit, news: Step | undefined, fault: Fault | undefined): void {
    const { first } = this.#room.proxy
    if (!first) return
    const isSame = news?.guest !== undefined && hit.name.endsWith(`: ${news.guest.name}`)
    this.#model.done(hit.name, first, fault?.kind !== 'cut before' && !isSame)
    if (isSame && news?.guest) this.#model.doubt(news.guest)
    // Two changes of one file at once: either comes last.
    if (news?.field && hit.name === `Save: ${news.field.card}`) this.#model.unsure(news.field)
  }

  /** Nothing waits for an answer any more. @param isKeyNew The page is to go on with another key. */
  #answered(isKeyNew: boolean): Promise<unknown> {
    return eventually(async () => {
      const { isBusy, dialog, isSigningIn } = await this.#thumb.see()
      return isKeyNew ? dialog === KEY_REPLACED || isSigningIn : !isBusy
    })
  }

  /** @throws if the control came under the finger only just now. */
  #meant({ name, isAimed, steadyMs }: Hit, aimedAt: string): void {
    if (isAimed || steadyMs >= STEADY_MS || !GRAVE.test(name)) return
    throw new Error(`the finger was on its way to “${aimedAt}”, and hit “${name}”, which was there for ${steadyMs} ms`)
  }
}
