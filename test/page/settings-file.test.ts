/** Saving settings in a file on one device, and loading them on another. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'puppeteer-core'
import t from 'tap'
import type { JsonObject } from '../../src/json.ts'
import { deviceRoot } from '../support/device.ts'
import { temporaryFolder } from '../support/folder.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import {
  click,
  control,
  download,
  goTo,
  holdConfirmations,
  signOutDuring,
  waitForNoText,
  waitForText,
  waitForValue,
} from './steps.ts'

const CARD = 'Save and load'
const DIALOG = 'Load settings'

t.test('settings in a file', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  const folder = temporaryFolder(t)

  const open = async (link: string) => {
    const tab = await openTab(browser, link)
    await goTo(tab.page, 'Settings')
    return tab
  }
  /** Chooses a file in the dialog. */
  const choose = async (page: Page, path: string, open = () => click(page, CARD, 'Load settings…')) => {
    const chooser = page.waitForFileChooser()
    // From here on, the browser asks the test for a file.
    await page.evaluate(() => undefined)
    await open()
    await (await chooser).accept([path])
  }
  const fileOf = (settings: unknown, more: object = {}) => {
    const path = join(folder, `${Math.random()}.json`)
    writeFileSync(path, JSON.stringify({ format: 'receiverd-settings', version: 1, settings, ...more }))
    return path
  }
  const rows = (page: Page) =>
    page.$$eval('dialog .facts > div', found => found.map(row => row.textContent?.replace(/\s+/g, ' ')))

  await t.test('a file that one device has saved is loaded on another, as far as that can take it', async t => {
    const one = await startPageDevice(t)
    const patch = { deviceName: 'Lobby', locale: 'C.UTF-8', moderation: { timeoutS: 45 } }
    t.equal((await one.service.patch(patch)).status, 200)
    const { page, offences } = await open(one.link)
    const shared = await saved(page, folder, 'Lobby')
    t.match(shared, { format: 'receiverd-settings', version: 1, settings: { moderation: { timeoutS: 45 } } })
    t.notMatch(JSON.stringify(shared), /Lobby|eth0/)
    await (await control(page, CARD, 'Include names and addresses, to replace this device')).click()
    const whole = await saved(page, folder, 'Lobby')
    t.match(whole.settings, { deviceName: 'Lobby', network: { eth0: { method: 'dhcp' } } })
    t.strictSame(offences, [])

    const other = await startPageDevice(t, { root: deviceRoot(t, 'x86-box') })
    const before = (await other.service.system()).value
    const { page: load, offences: others } = await open(other.link)
    const path = fileOf(shared.settings, { later: 1 })
    await choose(load, path)
    await waitForText(load, 'This device cannot take:')
    const shown = await rows(load)
    t.ok(shown.includes('Moderation, Time to decide, in seconds120 → 45'), shown.join('\n'))
    t.ok(shown.includes('Display, HDMI-A-2no such connector; this device has DP-1, HDMI-A-1'))
    t.ok(shown.includes('Wi-Finot available on this device: no Wi-Fi adapter'), shown.join('\n'))
    await click(load, DIALOG, 'Cancel')
    t.strictSame((await other.service.system()).value, before)
    await choose(load, path)
    await waitForText(load, 'This device cannot take:')
    t.equal((await other.service.patch({ moderation: { timeoutS: 50 } })).status, 200)
    await waitForValue(load, 'Moderation', 'Time to decide, in seconds', '50')
    await click(load, DIALOG, 'Load the rest')
    await waitForText(load, '50 → 45')
    await click(load, DIALOG, 'Load the rest')
    await waitForText(load, 'Saved.')
    await waitForNoText(load, 'This device cannot take:')
    t.match((await other.service.system()).value, { deviceName: before.deviceName, moderation: { timeoutS: 45 } })
    await choose(load, path)
    await waitForText(load, 'No setting would change.')
    await click(load, DIALOG, 'Close')
    t.strictSame(others, [])
  })

  await t.test('by keyboard on a phone; a change that could cut the page off is on trial', async t => {
    const { service, link } = await startPageDevice(t)
    const { page, offences } = await openTab(browser, link, page =>
      page.setViewport({ width: 375, height: 667, isMobile: true, hasTouch: true }),
    )
    await goTo(page, 'Settings')
    const servers = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5', '192.0.2.6', '192.0.2.7']
    const path = fileOf({ hostname: 'room-4', timezone: 'UTC', locale: 'C.UTF-8', ntp: { servers } })
    const button = await page.waitForSelector('.card ::-p-aria([name="Load settings…"][role="button"])')
    await button?.focus()
    await choose(page, path, () => page.keyboard.press('Enter'))
    await page.waitForSelector('dialog')
    const overflow = await page.$eval('dialog', dialog => dialog.scrollWidth - dialog.clientWidth)
    t.equal(overflow, 0, 'nothing is wider than the screen')
    t.equal(await page.evaluate(() => document.activeElement?.tagName), 'H2', 'reading begins at its title')
    // From its title to Cancel, and to Load.
    for (let steps = 0; steps < 2; steps++) await page.keyboard.press('Tab')
    t.equal(await page.evaluate(() => document.activeElement?.textContent), 'Load')
    const confirm = await holdConfirmations(page)
    await page.keyboard.press('Enter')
    await waitForText(page, 'Checking the connection')
    t.equal((await service.patch({ deviceName: 'Not now' })).status, 409, 'on trial')
    await confirm()
    await waitForText(page, 'Saved. The device can still be reached.')
    t.match((await service.system()).value, { hostname: 'room-4', timezone: 'UTC', ntp: { servers } })
    t.equal((await service.patch({ deviceName: 'Now' })).status, 200)
    t.strictSame(offences, [])
  })

  await t.test('a file that is not ours is refused, and a hostile one is text', async t => {
    const { service, link } = await startPageDevice(t)
    const { page, offences } = await open(link)
    const before = (await service.system()).value
    const foreign = join(folder, 'foreign')
    for (const text of ['', 'PNG\0\uffff', '{"hostname":"x"}', `{"a":"${'x'.repeat(70_000)}"}`]) {
      writeFileSync(foreign, text)
      // The error of the file before must not count.
      await page.$$eval('.error', found => found.map(error => error.replaceChildren()))
      await choose(page, foreign)
      await waitForText(page, 'This is not a file from “Save settings”.')
    }
    await choose(page, fileOf({}, { version: 2 }))
    await waitForText(page, 'This file is from a newer version.')
    await choose(page, fileOf({ deep: JSON.parse('['.repeat(100) + ']'.repeat(100)) }))
    await waitForText(page, 'more than 32 levels')

    const evil = '<img src=x onerror=alert(1)>\u202e'
    await choose(
      page,
      fileOf({ [evil]: 1, __proto__x: 1, ['n'.repeat(9_000)]: evil, deviceName: evil, hardware: { serial: evil } }),
    )
    await waitForText(page, 'unknown property')
    const shown = await rows(page)
    t.ok(shown.includes(`Device name${before.deviceName} → ${evil}`))
    t.ok(shown.includes(`${evil}unknown property`))
    t.ok(shown.some(row => row?.endsWith('read-only')))
    t.equal(await page.$$eval('img', found => found.length), 0)
    t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth))
    await click(page, DIALOG, 'Cancel')
    t.strictSame((await service.system()).value, before)
    t.strictSame(offences, [])
  })

  await t.test('after signing out, no answer opens a dialog', async t => {
    const { service, link } = await startPageDevice(t)
    const path = fileOf({ hostname: 'room-4' })
    for (const request of ['?validateOnly=true', '?confirmWithin=']) {
      const { page } = await open(link)
      const load = async () => {
        await choose(page, path)
        if (request === '?validateOnly=true') return
        await waitForText(page, 'room-4')
        await click(page, DIALOG, 'Load')
      }
      t.strictSame(await signOutDuring(page, request, load), [], request)
    }
    t.equal((await service.fetch('/system/confirm', { method: 'DELETE' })).status, 200, 'nobody has kept the change')
  })

  await t.test('a person who may only read may save, and not load', async t => {
    const { service } = await startPageDevice(t)
    const { page } = await open(`${service.url}/#key=${service.token(['admin:r'])}`)
    t.match(await saved(page, folder, 'Meeting Room 4'), { settings: { timezone: 'Europe/Brussels' } })
    t.notMatch(await page.evaluate(() => document.body.innerText), /Load settings/)
  })
})

/** The file of “Save settings”, for a device of that name. */
async function saved(page: Page, folder: string, name: string): Promise<{ readonly settings: JsonObject }> {
  const downloadPath = join(folder, String(Math.random()))
  mkdirSync(downloadPath)
  await download(page, downloadPath, () => click(page, CARD, 'Save settings'))
  return JSON.parse(readFileSync(join(downloadPath, `${name}-settings.json`), 'utf8'))
}
