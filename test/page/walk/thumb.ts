/** A thumb on a phone: it sees the page, aims at something, and taps where that was. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Page } from 'puppeteer-core'
import { eventually } from '../../support/eventually.ts'
import type { BrowserName } from '../browser.ts'
import { control, fill } from '../steps.ts'
import { type Hit, install, type Shown, type Watcher } from './watcher.ts'

export const PHONE = { width: 375, height: 667 }
/** A row that has just moved takes no finger for half a second. */
const AIM_MS = 5_000
/** Milliseconds until a tap that hits nothing at all is taken for that: a busy browser is late with the click. */
const CLICK_MS = 5_000
const TOUCH_MS = 40

interface WithWatcher {
  readonly watcher: Watcher
}

/** Of Firefox's protocol, as puppeteer has it inside. */
interface WithContext {
  readonly browsingContext: { performActions(actions: readonly object[]): Promise<void> }
}

export class Thumb {
  readonly page: Page
  readonly #isFirefox: boolean

  constructor(page: Page, browser: BrowserName) {
    this.page = page
    this.#isFirefox = browser === 'firefox'
  }

  /** Makes a phone of a tab, before it loads anything. */
  static async prepare(page: Page, browser: BrowserName): Promise<void> {
    // Firefox knows no phones, but has a finger.
    await page.setViewport(browser === 'firefox' ? PHONE : { ...PHONE, hasTouch: true, isMobile: true })
    await page.evaluateOnNewDocument(install)
  }

  see(): Promise<Shown> {
    return this.page.evaluate(() => (globalThis as unknown as WithWatcher).watcher.look())
  }

  /**
   * Taps where a control is.
   * @param meanwhile Called between the look and the tap.
   * @param againMs Milliseconds until it taps there once more.
   * @returns the hit; undefined if nothing can be hit, because the control takes no finger, or has gone.
   */
  async tap(name: string, meanwhile?: () => Promise<unknown>, againMs?: number): Promise<Hit | undefined> {
    const place = await eventually(() => this.#aim(name), AIM_MS).catch(() => undefined)
    if (!place) return undefined
    await meanwhile?.()
    await this.#touch(place.x, place.y, againMs)
    return eventually(() => this.#hit(), CLICK_MS).catch(() => undefined)
  }

  /** Types a value in place of the one that is there, or chooses it. */
  async enter(card: string, label: string, value: string, isChoice: boolean): Promise<void> {
    if (isChoice) await (await control(this.page, card, label)).select(value)
    else await fill(this.page, card, label, value)
  }

  /** Chooses a file that the page makes up, as soon as it asks for one. */
  async give(bytes: number): Promise<void> {
    await this.page.$eval(
      'input[type=file]',
      (chooser, bytes) => {
        const files = new DataTransfer()
        files.items.add(new File([new Uint8Array(bytes)], 'receiver.raucb'))
        Object.assign(chooser, { files: files.files })
        chooser.dispatchEvent(new Event('change'))
      },
      bytes,
    )
  }

  #aim(name: string) {
    return this.page.evaluate(name => (globalThis as unknown as WithWatcher).watcher.aim(name), name)
  }

  #hit() {
    return this.page.evaluate(() => (globalThis as unknown as WithWatcher).watcher.hit())
  }

  /** A second tap must not be late because the test is: by then, a row that has gone may have made room for the next one. */
  async #touch(x: number, y: number, againMs?: number): Promise<void> {
    if (!this.#isFirefox) {
      await this.page.touchscreen.tap(x, y)
      if (againMs === undefined) return
      await sleep(againMs)
      return this.page.touchscreen.tap(x, y)
    }
    // Firefox takes none of the radii that puppeteer's own finger has.
    const finger = { type: 'pointer', id: 'thumb', parameters: { pointerType: 'touch' } }
    const { browsingContext } = this.page.mainFrame() as unknown as WithContext
    const tap = [
      { type: 'pointerMove', x, y },
      { type: 'pointerDown', button: 0 },
      { type: 'pause', duration: TOUCH_MS },
      { type: 'pointerUp', button: 0 },
    ]
    const actions = againMs === undefined ? tap : [...tap, { type: 'pause', duration: againMs }, ...tap]
    await browsingContext.performActions([{ ...finger, actions }])
  }
}
