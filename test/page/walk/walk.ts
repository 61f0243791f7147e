/** A random walk over the page, one step after the other, and the invariants after each. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { REPOSITORY } from '../../../build/bundle-file.ts'
import { DEADLINE_MS, eventually } from '../../support/eventually.ts'
import { Random } from '../../support/random.ts'
import { type BrowserName, openTab, startBrowser, type Tab } from '../browser.ts'
import { Model } from './model.ts'
import { Press } from './press.ts'
import { Room } from './room.ts'
import { newsSteps, type Scene, type Step, thumbSteps, upheavals } from './steps.ts'
import { Thumb } from './thumb.ts'
import { differenceOfUpdate } from './update.ts'

const OUT = join(REPOSITORY, 'build/out/walk')
/** Two seconds, in looks: on a busy machine the looks are slow, and so is the page. */
const LOOKS = 40
const LOOK_MS = 50
const REMEMBERED = 10
/** The page waits for up to a minute between two attempts to connect. */
const RECONNECT_MS = 2 * DEADLINE_MS

export class Walk {
  /** The name of each step. */
  readonly taken: string[] = []
  readonly #name: string
  readonly #scene: Omit<Scene, 'at'>
  readonly #tab: Tab

  private constructor(name: string, scene: Omit<Scene, 'at'>, tab: Tab) {
    this.#name = name
    this.#scene = scene
    this.#tab = tab
  }

  /** How many presses have asked the device for something. */
  get asked(): number {
    return this.#scene.press.asked
  }

  static async start(t: Test, browser: BrowserName, seed: number): Promise<Walk> {
    const room = await Room.start(t)
    const model = await Model.of(room)
    room.proxy.listen((sent, answer) => model.heard(sent, answer))
    const tab = await openTab(await startBrowser(t, browser), room.link, page => Thumb.prepare(page, browser))
    // A reload with entries that are not saved.
    tab.page.on('dialog', dialog => void dialog.accept())
    const thumb = new Thumb(tab.page, browser)
    const random = new Random(seed)
    const press = new Press(room, model, thumb, random)
    return new Walk(`${browser}-${seed}`, { room, model, thumb, press, random }, tab)
  }

  /** Takes so many steps. @throws the broken invariant, and its history. */
  async go(steps: number): Promise<void> {
    await this.#holds()
    for (let at = 1; at <= steps; at++) {
      try {
        const step = await this.#next(at)
        this.taken.push(step.what)
        await step.act()
        await this.#holds()
      } catch (error) {
        throw await this.#failure(at, error)
      }
    }
  }

  async #next(at: number): Promise<Step> {
    const scene = { ...this.#scene, at }
    const shown = await scene.thumb.see()
    const steps = [...newsSteps(scene), ...upheavals(scene), ...thumbSteps(scene, shown)]
    let left = scene.random.next() * steps.reduce((sum, { weight }) => sum + weight, 0)
    const step = steps.find(({ weight }) => {
      left -= weight
      return left < 0
    })
    if (!step) throw new Error('there is no step')
    return step
  }

  /** The second invariant: the page is right, or says that it does not know. */
  async #holds(): Promise<void> {
    const { room, model, thumb } = this.#scene
    await patiently(() => model.differenceOfDevice())
    const isThere = async () => {
      const shown = await thumb.see()
      return model.isKeyOld ? shown.isSigningIn : shown.isSigningIn || shown.state !== ''
    }
    await eventually(isThere, RECONNECT_MS)
    await patiently(async () => {
      const shown = await thumb.see()
      return model.differenceOfPage(shown) ?? differenceOfUpdate(shown, await room.updateState())
    })
    model.settled(await thumb.see())
    const unasked = room.proxy.take().filter(one => !one.mayBeRepeat && !model.isFollowUp(one))
    if (unasked.length > 0) throw new Error(`nobody asked for ${JSON.stringify(unasked)}`)
    const offences = this.#tab.offences.filter(offence => /^(exception|request|a credential)/.test(offence))
    if (offences.length > 0) throw new Error(offences.join('\n'))
  }

  async #failure(at: number, cause: unknown): Promise<Error> {
    mkdirSync(OUT, { recursive: true })
    const path = join(OUT, `${this.#name}-${at}.png`)
    const { page } = this.#tab
    const taken = await page.screenshot({ path }).then(() => path, String)
    const shown = await this.#scene.thumb.see().catch(String)
    const steps = this.taken.slice(-REMEMBERED).map((what, index, { length }) => `${at - length + index + 1}. ${what}`)
    const said = this.#scene.room.service.said.slice(-REMEMBERED)
    const parts = [
      String(cause),
      'steps:',
      ...steps,
      'log:',
      ...said,
      `shown: ${JSON.stringify(shown, null, 1)}`,
      taken,
    ]
    return new Error(parts.join('\n'), { cause })
  }
}

/** Looks until there is no difference any more. @throws the difference that stays. */
async function patiently(difference: () => Promise<string | undefined>): Promise<void> {
  for (let looks = 1; ; looks++) {
    const found = await difference()
    if (found === undefined) return
    if (looks === LOOKS) throw new Error(found)
    await sleep(LOOK_MS)
  }
}
