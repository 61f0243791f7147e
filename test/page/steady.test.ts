/** A control that moves or appears under a finger takes no press for a moment, whatever moves it. */
import type { Page } from 'puppeteer-core'
import t from 'tap'
import { DEADLINE_MS } from '../support/eventually.ts'
import { missingBrowser, openTab, PHONE, startBrowser } from './browser.ts'
import { type PageDevice, startPageDevice } from './device.ts'
import { choose, click, goTo, tap, waitForNoText, waitForText } from './steps.ts'

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

/** Waits until a button is at rest. */
async function waitForRest(page: Page, name: string): Promise<void> {
  await page.waitForFunction(
    name => {
      const button = document.querySelector(`[aria-label="${name}"]`)
      button?.scrollIntoView({ block: 'center' })
      return button && getComputedStyle(button).pointerEvents !== 'none'
    },
    { polling: 50 },
    name,
  )
}

/** Waits until a button is at rest, and watches it. @returns a finger's hit at its old place as soon as it has moved. */
async function watch(page: Page, name: string): Promise<() => Promise<string>> {
  await waitForRest(page, name)
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

t.test(
  'a double tap removes one item of a list, and a later tap another',
  { skip: missingBrowser('shell') },
  async t => {
    const browser = await startBrowser(t)
    const { service, link } = await startPageDevice(t)
    t.equal((await service.patch({ ntp: { servers: ['192.0.2.1', '192.0.2.2', '192.0.2.3'] } })).status, 200)
    const { page } = await openTab(browser, link, page => page.setViewport(PHONE))
    await goTo(page, 'Settings')
    const session = await page.createCDPSession()
    const tapTheFirst = async (times: number) => {
      await waitForRest(page, 'Remove: Servers, 1')
      const button = await page.$('[aria-label="Remove: Servers, 1"]')
      const { x = 0, y = 0, width = 0, height = 0 } = (await button?.boundingBox()) ?? {}
      // All of them at once, however long the browser takes to acknowledge the first.
      const touchPoints = [{ x: Math.round(x + width / 2), y: Math.round(y + height / 2) }]
      const touches = Array.from({ length: times }, () => [
        session.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints }),
        session.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] }),
      ])
      await Promise.all(touches.flat())
      return page.$$eval('input[aria-label^="Servers, "]', inputs => inputs.map(({ value }) => value))
    }
    t.strictSame(await tapTheFirst(2), ['192.0.2.2', '192.0.2.3'])
    t.strictSame(await tapTheFirst(1), ['192.0.2.3'])
  },
)

/** Watches for a dialog that opens or closes. @returns the hit of a finger at the place of a button at that moment. */
async function watchDialog(page: Page, button: string): Promise<() => Promise<string>> {
  const watched = await page.evaluateHandle(
    button => ({
      hit: new Promise<string>(resolve =>
        new MutationObserver((_, observer) => {
          const found = [...document.querySelectorAll('button')].find(
            element => (element.getAttribute('aria-label') ?? element.textContent) === button,
          )
          if (!found) return
          observer.disconnect()
          const { x, y, width, height } = found.getBoundingClientRect()
          const hit = document.elementFromPoint(x + width / 2, y + height / 2)?.closest('button')
          resolve(hit?.textContent ?? 'nothing')
        }).observe(document.body, { childList: true }),
      ),
    }),
    button,
  )
  return () => watched.evaluate(({ hit }) => hit)
}

t.test('a finger on its way to a place where a dialog opens or closes', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  const device = await startPageDevice(t)
  const { page } = await openTab(browser, device.link, page => page.setViewport(PHONE))
  await waitForNoText(page, 'Connecting')
  await twoWait(page, device)
  await page.setRequestInterception(true)
  page.on('request', request => {
    if (!request.url().endsWith('/admit?replace=false')) return void request.continue()
    const body = JSON.stringify({ detail: '"Cid" is mirroring; this device shows one at a time.', session: 'c' })
    request.respond({ status: 409, contentType: 'application/problem+json', body })
  })

  await t.test('hits nothing in a question that the device has led to', async t => {
    const hit = await watchDialog(page, 'Replace')
    await tap(page, 'Let in: Ann')
    t.equal(await hit(), 'nothing')
  })

  await t.test('hits nothing that a dialog has covered', async t => {
    const hit = await watchDialog(page, 'Let in: Bob')
    await click(page, 'Replace the device that is mirroring?', 'Cancel')
    t.equal(await hit(), 'nothing')
  })
})
