/** The page of the bundle, behind nginx with TLS and a path in front. */
import type { HTTPRequest } from 'puppeteer-core'
import t from 'tap'
import { startNginx } from '../interop/nginx.ts'
import { startReceiver } from '../interop/support.ts'
import { needs } from '../support/needs.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { click, fill, goTo, waitForText } from './steps.ts'

const skip = missingBrowser('shell') || needs('nginx')

for (const prefix of ['/', '/building-7/room-4/'])
  t.test(`under ${prefix}`, { skip }, async t => {
    const receiver = await startReceiver(t)
    const port = await startNginx(t, receiver, prefix === '/' ? undefined : prefix)
    const browser = await startBrowser(t, 'shell', ['--ignore-certificate-errors'])
    const { page, offences } = await openTab(browser, `https://127.0.0.1:${port}${prefix}#key=${receiver.key}`)
    await waitForText(page, 'Meeting Room 4')
    t.equal(page.url(), `https://127.0.0.1:${port}${prefix}`)
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Device name', 'Behind nginx')
    await click(page, 'General', 'Save')
    await waitForText(page, 'Saved.')
    t.equal((await receiver.system()).value.deviceName, 'Behind nginx')
    await receiver.patch({ deviceName: 'Live through nginx' })
    await waitForText(page, 'Live through nginx')
    await receiver.restart()
    await receiver.patch({ deviceName: 'And after a restart' })
    await waitForText(page, 'And after a restart')
    t.strictSame(offences, [])
    // A certificate that the browser does not accept: the stream goes on, and everything else fails.
    // Until both streams are back, the device counts as restarting.
    await page.waitForFunction(() => document.querySelector('.state')?.textContent === 'Connected')
    await page.setRequestInterception(true)
    // Until the page is loaded again: otherwise it could find its way back before, and take the button away.
    let isReloaded = false
    const refuse = (request: HTTPRequest) => {
      isReloaded ||= request.isNavigationRequest()
      if (isReloaded) request.continue()
      else request.abort('connectionfailed')
    }
    page.on('request', refuse)
    await fill(page, 'General', 'Device name', 'Not sent')
    await click(page, 'General', 'Save')
    await waitForText(page, 'Not connected')
    await waitForText(page, 'it may have a new certificate')
    await click(page, 'General', 'Discard')
    await Promise.all([page.waitForNavigation(), page.locator('button::-p-text(Reload)').click()])
    await waitForText(page, 'And after a restart')
  })
