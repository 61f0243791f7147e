/** A control that moves under a finger takes no press for a moment, whatever moves it. */
import type { Page } from 'puppeteer-core'
import t from 'tap'
import { DEADLINE_MS } from '../support/eventually.ts'
import { missingBrowser, openTab, PHONE, startBrowser } from './browser.ts'
import { type PageDevice, startPageDevice } from './device.ts'
import { choose, goTo, waitForNoText, waitForText } from './steps.ts'

const LONG = 'The large meeting room on the second floor, on the left'

interface Case {
  readonly name: string
  readonly come: (page: Page, device: PageDevice) => Promise<void>
  /** The button about to be pressed. */
  readonly button: string
  readonly happens: (device: PageDevice) => Promise<unknown>
}

async function twoWait(page: Page, { ask }: PageDevice): Promise<void> {
  for (const name of ['Ann', 'Bob']) {
    await ask(name)
    await waitForText(page, name)
  }
}

const CASES: readonly Case[] = [
  {
    name: 'the name of the device becomes so long that it takes another line',
    come: twoWait,
    button: 'Let in: Ann',
    happens: ({ service }) => service.patch({ deviceName: LONG }),
  },
  {
    name: 'others change the setting that is being changed',
    come: async page => {
      await goTo(page, 'Settings')
      await choose(page, 'General', 'Time zone', 'London')
    },
    button: 'Save: General',
    happens: ({ service }) => service.patch({ timezone: 'Asia/Tokyo' }),
  },
]

/** Waits until a button is at rest, and watches it. @returns a finger's hit at its old place as soon as it has moved. */
async function watch(page: Page, name: string): Promise<() => Promise<string>> {
  await page.waitForFunction(
    name => {
      const button = document.querySelector(`[aria-label="${name}"]`)
      button?.scrollIntoView({ block: 'center' })
      return button && getComputedStyle(button).pointerEvents !== 'none'
    },
    { polling: 50 },
    name,
  )
  const watched = await page.evaluateHandle(
    (name, ms) => {
      const placeOf = () => document.querySelector(`[aria-label="${name}"]`)?.getBoundingClientRect()
      const { x = 0, y = 0, width = 0, height = 0 } = placeOf() ?? {}
      const hit = new Promise<string>(resolve => {
        setTimeout(() => resolve('it does not move'), ms)
        const observer = new MutationObserver(() => {
          if (placeOf()?.y === y) return
          observer.disconnect()
          // A finger comes after the frame that shows it.
          requestAnimationFrame(() =>
            setTimeout(() => {
              const hit = document.elementFromPoint(x + width / 2, y + height / 2)?.closest('.decide, .actions, .note')
              resolve(hit?.textContent ?? 'nothing')
            }),
          )
        })
        observer.observe(document.body, { childList: true, subtree: true, attributes: true, characterData: true })
      })
      return { hit }
    },
    name,
    DEADLINE_MS,
  )
  return () => watched.evaluate(({ hit }) => hit)
}

t.test('a finger on its way to a button', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  for (const { name, come, button, happens } of CASES)
    await t.test(`hits nothing when ${name}`, async t => {
      const device = await startPageDevice(t)
      const { page } = await openTab(browser, device.link, page => page.setViewport(PHONE))
      await waitForNoText(page, 'Connecting')
      await come(page, device)
      const hit = await watch(page, button)
      await happens(device)
      t.equal(await hit(), 'nothing')
      await page.browserContext().close()
    })
})
