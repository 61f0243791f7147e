import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'puppeteer-core'
import t, { type Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { TestIssuer } from '../support/issuer.ts'
import { needs } from '../support/needs.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import {
  choose,
  click,
  clickNamed,
  control,
  fill,
  goTo,
  navigation,
  signOutDuring,
  stored,
  valueIn,
  waitForNoText,
  waitForText,
} from './steps.ts'

const ZBARIMG = '/usr/bin/zbarimg'
const REMOVE_ISSUERS = 'Also remove the issuers that were added with the API key'
const skip = missingBrowser('shell') || needs('zbarimg')

/** The text of the QR code on the screen. */
async function scan(t: Test, page: Page): Promise<string> {
  const picture = join(temporaryFolder(t), 'screen.png') as `${string}.png`
  await page.screenshot({ path: picture })
  return execFileSync(ZBARIMG, ['--quiet', '--raw', picture], { encoding: 'utf8', stdio: 'pipe' }).trim()
}

t.test('access', { skip }, async t => {
  const { service, link } = await startPageDevice(t)
  const browser = await startBrowser(t)

  await t.test('a token is made, scanned from the screen, and lets a moderator in', async t => {
    const { page, offences } = await openTab(browser, link)
    await goTo(page, 'Access')
    await choose(page, 'New token', 'Valid for', '1 hour')
    await fill(page, 'New token', 'Name', 'panel-4')
    await click(page, 'New token', 'Make a token')
    await waitForText(page, 'Shown only now')
    const token = await valueIn(page, 'Your new token', 'Token')
    const [, claims = ''] = token.split('.')
    const { roles, sub, exp } = JSON.parse(Buffer.from(claims, 'base64url').toString())
    t.strictSame({ roles, sub }, { roles: ['moderator:rw'], sub: 'panel-4' })
    t.ok(Math.abs(exp - Date.now() / 1000 - 3_600) < 60, 'valid for an hour')

    const scanned = await scan(t, page)
    t.equal(scanned, `${service.url}/#key=${token}`)

    const phone = await openTab(browser, scanned)
    await waitForText(phone.page, 'No device is waiting.')
    t.strictSame(await navigation(phone.page), [], 'the sessions, and nothing else')
    t.strictSame(phone.offences, [])
    await click(page, 'Your new token', 'Done')
    await waitForNoText(page, 'Shown only now')
    t.notOk((await page.content()).includes(token), 'gone from the page')
    t.strictSame(offences, [])
  })

  await t.test('a token is copied', async t => {
    const { page } = await openTab(browser, link)
    await page.browserContext().overridePermissions(service.url, ['clipboard-read', 'clipboard-sanitized-write'])
    await goTo(page, 'Access')
    await click(page, 'New token', 'Make a token')
    await click(page, 'Your new token', 'Copy')
    await waitForText(page, 'Copied.')
    const isInSight = await page.$eval('.toast', toast => {
      const { x, y, width, height } = toast.getBoundingClientRect()
      // It lets presses through, and such an element is not found at a point.
      ;(toast as HTMLElement).style.pointerEvents = 'auto'
      return document.elementFromPoint(x + width / 2, y + height / 2) === toast
    })
    t.ok(isInSight, 'the dialog does not cover it')
    t.equal(await page.evaluate(() => navigator.clipboard.readText()), await valueIn(page, 'Your new token', 'Token'))
  })

  await t.test('a token that comes after signing out is not shown', async t => {
    const { page } = await openTab(browser, link)
    await goTo(page, 'Access')
    t.strictSame(await signOutDuring(page, '/tokens', () => click(page, 'New token', 'Make a token')), [])
  })

  const plant = async (t: Test, name: string) => {
    const { publicKey } = new TestIssuer(name)
    const body = JSON.stringify({ publicKey, roles: ['admin:r'] })
    const headers = { 'Content-Type': 'application/json' }
    t.equal((await service.fetch(`/issuers/${name}`, { method: 'PUT', headers, body })).status, 201)
  }
  const issuers = async () => (await service.fetch('/issuers')).json()

  await t.test('an issuer is listed, and removed after a question', async t => {
    await plant(t, 'planted')
    const { page, offences } = await openTab(browser, link)
    await goTo(page, 'Access')
    await waitForText(page, 'EdDSA · admin:r · added with the API key')
    await clickNamed(page, 'Remove: planted')
    await click(page, 'Remove \u2068planted\u2069?', 'Remove')
    await waitForNoText(page, 'added with the API key')
    t.strictSame(await issuers(), { issuers: [] })
    t.strictSame(offences, [])
  })

  await t.test('issuers and the certificate are what the device has, also after a failure and a change', async t => {
    let pin: string | undefined
    let isAway = true
    const { page } = await openTab(browser, link, async page => {
      await page.setRequestInterception(true)
      page.on('request', request => {
        const { pathname } = new URL(request.url())
        const isIssuers = pathname.endsWith('/issuers')
        if (isAway && (isIssuers || pathname.endsWith('/status'))) request.respond({ status: 500 })
        else if (pathname.endsWith('/status'))
          request.respond({ contentType: 'application/json', body: JSON.stringify({ certificate: pin && { pin } }) })
        else request.continue()
      })
    })
    await goTo(page, 'Access')
    await waitForText(page, 'Issuers')
    isAway = false
    await waitForNoText(page, 'Issuers')
    await plant(t, 'first')
    await waitForText(page, 'first')
    await page.focus('[aria-label="Remove: first"]')
    for (pin of ['one', 'other'])
      await page.waitForFunction(
        pin => [...document.querySelectorAll('input')].some(input => input.value === pin),
        { polling: 50 },
        pin,
      )
    t.equal(await page.evaluate(() => document.activeElement?.ariaLabel), 'Remove: first')
    await goTo(page, 'Settings')
    t.equal((await service.fetch('/issuers/first', { method: 'DELETE' })).status, 204)
    await goTo(page, 'Access')
    await waitForNoText(page, 'first')
    pin = undefined
    await waitForNoText(page, 'Certificate')
  })

  await t.test(
    'a new key: the issuers that stay are named, or removed where they were added with the old one',
    async t => {
      mkdirSync(join(service.root, 'etc/receiverd/issuers'), { recursive: true })
      writeFileSync(join(service.root, 'etc/receiverd/issuers/office.json'), new TestIssuer('office').file())
      await plant(t, 'planted')
      await eventually(async () => (await issuers()).issuers.length === 2)
      const { page, offences } = await openTab(browser, `${service.url}/#key=${service.key}`)
      const replace = async () => {
        await click(page, 'API key', 'Replace the API key…')
        return control(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', REMOVE_ISSUERS)
      }
      const confirm = () => click(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', 'Replace the API key')
      await goTo(page, 'Access')
      await replace()
      await confirm()
      await waitForText(page, 'These issuers stay, and their tokens are accepted: office, planted.')
      await click(page, 'The new API key', 'Done')

      await goTo(page, 'Access')
      await (await replace()).click()
      await confirm()
      await waitForText(page, 'These issuers stay, and their tokens are accepted: office.')
      t.match(await issuers(), { issuers: [{ name: 'office', source: 'image' }] })
      await click(page, 'The new API key', 'Done')

      rmSync(join(service.root, 'etc/receiverd/issuers/office.json'))
      await eventually(async () => (await issuers()).issuers.length === 0)
      await goTo(page, 'Access')
      await replace()
      await confirm()
      await waitForText(page, 'The new API key')
      await waitForNoText(page, 'These issuers stay')
      t.strictSame(offences, [])
    },
  )

  await t.test('the key is replaced: this page goes on, the others are signed out', async t => {
    const old = service.key
    const { page, offences } = await openTab(browser, `${service.url}/#key=${old}`)
    const moderator = await openTab(browser, `${service.url}/#key=${service.token(['moderator:rw'])}`)
    await waitForText(moderator.page, 'No device is waiting.')
    await page.bringToFront()
    await goTo(page, 'Access')
    await click(page, 'API key', 'Replace the API key…')
    await waitForText(page, 'Replace the API key of \u2068Meeting Room 4\u2069?')
    await click(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', 'Cancel')
    t.equal(service.key, old)
    await click(page, 'API key', 'Replace the API key…')
    await click(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', 'Replace the API key')
    await waitForText(page, 'The new API key')
    t.not(service.key, old)
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.equal(await scan(t, page), `${service.url}/#key=${service.key}`)
    t.strictSame(await stored(page), { session: [service.key], local: [] })
    for (let press = 0; press < 3; press++) await page.keyboard.press('Escape')
    // Without an event of the keyboard, this is a request to close, as the back gesture of Android.
    await page.evaluate(() => addEventListener('keydown', event => event.stopImmediatePropagation(), true))
    for (let press = 0; press < 3; press++) await page.keyboard.press('Escape')
    await click(page, 'The new API key', 'Done')
    await waitForText(page, 'Connected')
    await service.patch({ deviceName: 'Still here' })
    await waitForText(page, 'Still here')
    t.strictSame(offences, [])
    await moderator.page.bringToFront()
    await waitForText(moderator.page, 'The API key of this device was replaced.')
  })
  await t.test('whoever scans the screen of a new device gets a key of their own', async t => {
    const seen = service.key
    const { page, offences } = await openTab(browser, `${service.url}/#key=${seen}&setup`)
    await waitForText(page, 'The new API key')
    t.not(service.key, seen)
    t.equal((await service.fetchAs(seen)).status, 401, 'a picture of the screen is worth nothing')
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.strictSame(await stored(page), { session: [service.key], local: [] })
    await click(page, 'The new API key', 'Done')
    await waitForText(page, 'Connected')
    t.equal(page.url(), `${service.url}/`)
    t.strictSame(offences, [])
  })
})
