import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'puppeteer-core'
import t from 'tap'
import { ManualClock } from '../support/clock.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/port.ts'
import { missingBrowser, openTab, POLL, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import { click, fill, goTo, valueIn, waitForNoText, waitForText } from './steps.ts'

const HOUR_MS = 3_600_000

/** Presses “Try now”, unless the page has connected by itself meanwhile. */
async function tryNow(page: Page): Promise<void> {
  await page.evaluate(() =>
    [...document.querySelectorAll('button')].find(({ textContent }) => textContent === 'Try now')?.click(),
  )
}

t.test('staying connected', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)

  await t.test('a restart is shown, survived, and what changed meanwhile appears', async t => {
    const options = { root: deviceRoot(t), listen: `127.0.0.1:${await freePort()}` }
    const before = await startPageDevice(t, options)
    const { page, offences } = await openTab(browser, before.link)
    await goTo(page, 'Settings')
    await fill(page, 'AirPlay', 'Name', 'Being typed')
    await before.service.close()
    await waitForText(page, 'The device is restarting.')
    writeFileSync(join(options.root, 'etc/machine-info'), 'PRETTY_HOSTNAME="While you were away"\n')

    const { service } = await startPageDevice(t, options)
    await tryNow(page)
    await waitForText(page, 'While you were away')
    await waitForNoText(page, 'The device is restarting.')
    t.equal(await valueIn(page, 'AirPlay', 'Name'), 'Being typed')
    await service.patch({ deviceName: 'And live again' })
    await waitForText(page, 'And live again')
    t.strictSame(
      offences.filter(offence => !offence.includes('ERR_')),
      [],
    )
  })

  await t.test('after a restart without a clock, the page waits until the device accepts its token again', async t => {
    const clock = new ManualClock()
    const root = deviceRoot(t)
    const options = { root, listen: `127.0.0.1:${await freePort()}`, clock, builtAt: Date.now() }
    const before = await startPageDevice(t, options)
    const token = before.service.token(['admin:rw', 'moderator:rw'], { exp: Math.floor(Date.now() / 1000) + 3_600 })
    const { page } = await openTab(browser, `${before.service.url}/#key=${token}`)
    await goTo(page, 'Settings')
    await fill(page, 'AirPlay', 'Name', 'Being typed')
    await before.service.close()
    await waitForText(page, 'The device is restarting.')

    clock.step(-HOUR_MS)
    const { service } = await startPageDevice(t, options)
    await tryNow(page)
    await waitForText(page, 'The clock of this device is not set')
    await waitForNoText(page, 'The device is restarting.')
    await click(page, 'AirPlay', 'Save')
    await page.waitForFunction(
      () => document.querySelector('.card > .error:not([hidden])')?.textContent?.startsWith('The clock'),
      POLL,
    )
    t.equal(await valueIn(page, 'AirPlay', 'Name'), 'Being typed')

    clock.step(HOUR_MS)
    await tryNow(page)
    await waitForText(page, 'Connected')
    t.notOk(await page.$eval('.connection', banner => banner.checkVisibility()))
    await click(page, 'AirPlay', 'Save')
    await waitForText(page, 'Saved.')
    t.match(await (await service.fetch('/system')).json(), { airplay: { name: 'Being typed' } })
  })

  await t.test('hardware that is gone after a restart is no longer shown', async t => {
    const options = { root: deviceRoot(t), listen: `127.0.0.1:${await freePort()}` }
    const before = await startPageDevice(t, options)
    const { page } = await openTab(browser, before.link)
    await goTo(page, 'Settings')
    await fill(page, 'Wi-Fi', 'Country', 'DK')
    await waitForText(page, 'Unsaved changes')
    await before.service.close()
    for (const path of ['sys/class/net/wlan0', 'etc/wpa_supplicant'])
      rmSync(join(options.root, path), { recursive: true })

    await startPageDevice(t, options)
    await tryNow(page)
    await waitForNoText(page, 'joins by radio')
    await waitForNoText(page, 'wlan0')
    await waitForNoText(page, 'Unsaved changes')
    const index = await page.$$eval('.index li:not([hidden])', items => items.map(({ textContent }) => textContent))
    t.notOk(index.includes('Wi-Fi'))
    await waitForText(page, 'eth0')
  })

  await t.test('an answer that comes only after a restart hides no change after it', async t => {
    const options = { root: deviceRoot(t), listen: `127.0.0.1:${await freePort()}` }
    const before = await startPageDevice(t, options)
    const { page } = await openTab(browser, before.link)
    await goTo(page, 'Settings')
    let held: (() => Promise<void>) | undefined
    await page.setRequestInterception(true)
    page.on('request', async request => {
      if (request.method() !== 'PATCH') return request.continue()
      const answer = await before.service.patch(request.postData() ?? '')
      const body = await answer.text()
      const headers = { ETag: answer.headers.get('etag') ?? '' }
      held = () => request.respond({ status: answer.status, contentType: 'application/json', headers, body })
    })
    await fill(page, 'AirPlay', 'Name', 'Mine')
    // Its event is lost, too.
    await page.evaluate(() => dispatchEvent(new Event('pagehide')))
    await click(page, 'AirPlay', 'Save')
    const answer = await eventually(() => held)
    await before.service.close()
    const { service } = await startPageDevice(t, options)
    await service.patch({ deviceName: 'Before the answer' })
    await page.evaluate(() => dispatchEvent(new Event('pageshow')))
    await waitForText(page, 'Before the answer')
    await answer()
    await waitForText(page, 'Saved.')
    await waitForText(page, 'Before the answer')
    await service.patch({ deviceName: 'After the answer' })
    await waitForText(page, 'After the answer')
  })

  await t.test('it connects again by itself', async t => {
    const options = { root: deviceRoot(t), listen: `127.0.0.1:${await freePort()}` }
    const before = await startPageDevice(t, options)
    const { page } = await openTab(browser, before.link)
    await waitForText(page, 'Meeting Room 4')
    await before.service.close()
    await waitForText(page, 'The device is restarting.')
    await startPageDevice(t, options)
    await waitForNoText(page, 'The device is restarting.')
  })

  await t.test(
    'a device that does not come back is not restarting for good; the page says so wherever it is scrolled to',
    async t => {
      const { service, link } = await startPageDevice(t)
      const { page } = await openTab(browser, link)
      await goTo(page, 'Settings')
      await page.evaluate(() => scrollTo(0, document.body.scrollHeight))
      await service.close()
      await waitForText(page, 'The device is restarting.')
      const top = await page.$eval('.connection', banner => banner.getBoundingClientRect().top)
      t.equal(top, 0, 'in sight')
      await page.evaluate(() => {
        const { performance } = window
        const late = performance.now() + 180_000
        performance.now = () => late
      })
      await waitForText(page, 'Not connected to the device.')
      await waitForNoText(page, 'The device is restarting.')
    },
  )

  await t.test('a page that was shown before a sign-in is not kept', async t => {
    const { service, link } = await startPageDevice(t)
    const { page } = await openTab(browser, link)
    await waitForText(page, 'Meeting Room 4')
    const session = await page.createCDPSession()
    const listeners = async () => {
      const { result } = await session.send('Runtime.evaluate', { expression: 'window' })
      const found = await session.send('DOMDebugger.getEventListeners', { objectId: result.objectId ?? '' })
      return found.listeners.length
    }
    const before = await listeners()
    for (const _ of [1, 2, 3]) {
      await page.evaluate(key => {
        document.querySelector('main')?.remove()
        location.hash = `#key=${key}`
      }, service.key)
      await page.waitForSelector('main h2')
    }
    t.equal(await listeners(), before)
  })
})

t.test(
  'a hidden tab leaves its connections to others, and goes on where it was',
  { skip: missingBrowser('chrome') },
  async t => {
    const { service, link } = await startPageDevice(t)
    const streams = async () => ((await (await service.fetch('/status')).json()) as { streams: number }).streams
    const { page } = await openTab(await startBrowser(t, 'chrome'), link)
    await waitForText(page, 'Meeting Room 4')
    await eventually(async () => (await streams()) === 2)
    const other = await page.browserContext().newPage()
    await other.bringToFront()
    await eventually(async () => (await streams()) === 0)
    await service.patch({ deviceName: 'Not looked at' })
    await page.bringToFront()
    await waitForText(page, 'Not looked at')
    await eventually(async () => (await streams()) === 2)
  },
)
