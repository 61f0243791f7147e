import type { Page } from 'puppeteer-core'
import t, { type Test } from 'tap'
import { ManualClock } from '../support/clock.ts'
import type { TestService } from '../support/service.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import { enter, navigation, signIn, stored, submit, waitForNoText, waitForText } from './steps.ts'

const CLOCK_NOT_SET = 'The clock of this device is not set'
const HOUR_MS = 3_600_000

t.test('signing in', { skip: missingBrowser('shell') }, async t => {
  const { service, link } = await startPageDevice(t)
  const browser = await startBrowser(t)
  const linkFor = (credential: string) => `${service.url}/#key=${credential}`

  await t.test('by pasting the key, which stays in this tab', async t => {
    const { page, offences } = await openTab(browser, service.url)
    await waitForText(page, 'Sign in')
    await submit(page)
    await waitForText(page, 'Paste the API key or a token first.')
    await enter(page, 'API key or token', ` ${service.key}\n`)
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(await stored(page), { session: [service.key], local: [] })
    t.strictSame(await navigation(page), ['Sessions', 'Settings', 'Status', 'Log', 'Access'])
    await page.reload()
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(offences, [])
  })

  await t.test('by a link, whose key leaves the address at once', async t => {
    const { page, offences } = await openTab(browser, link)
    t.equal(page.url(), `${service.url}/`)
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(await stored(page), { session: [service.key], local: [] })
    t.strictSame(offences, [])
  })

  await t.test('by a link in a tab that is open already', async t => {
    const { page } = await openTab(browser, service.url)
    await waitForText(page, 'Sign in')
    await page.evaluate(link => location.assign(link), link)
    await waitForText(page, 'Meeting Room 4')
    t.notMatch(page.url(), 'key')
  })

  await t.test('for longer, where somebody asks for it', async t => {
    const { page } = await openTab(browser, service.url)
    await page.locator('::-p-text(Stay signed in)').click()
    await signIn(page, service.key)
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(await stored(page), { session: [], local: [service.key] })
    const another = await openTab(page.browserContext(), service.url)
    await waitForText(another.page, 'Meeting Room 4')

    await page.bringToFront()
    await page.locator('button::-p-text(Sign out)').click()
    await waitForText(another.page, 'Paste the API key')
    t.strictSame(await stored(page), { session: [], local: [] })
    await page.reload()
    await waitForText(page, 'Paste the API key')
  })

  await t.test('a refused credential: why, and it is forgotten', async t => {
    const wrong: readonly (readonly [credential: string, why: string])[] = [
      ['A'.repeat(43), 'This is not the API key in force.'],
      ['nonsense', 'The credential is neither an API key'],
      [service.token(['admin:rw'], { exp: 1 }), 'The token has expired.'],
      [service.token([]), 'it grants nothing that this page shows'],
    ]
    for (const [credential, why] of wrong) {
      const { page, offences } = await openTab(browser, linkFor(credential))
      await waitForText(page, why)
      t.strictSame(await stored(page), { session: [], local: [] }, why)
      t.strictSame(offences, [])
    }
  })

  await t.test('each sees what the credential grants', async t => {
    const seen: readonly (readonly [roles: readonly string[], views: readonly string[]])[] = [
      [['moderator:rw'], []],
      [['moderator:r'], []],
      [['admin:r'], ['Settings', 'Status', 'Log']],
      [['admin:rw'], ['Settings', 'Status', 'Log']],
      [
        ['admin:r', 'moderator:r'],
        ['Sessions', 'Settings', 'Status', 'Log'],
      ],
    ]
    for (const [roles, views] of seen) {
      const { page, offences } = await openTab(browser, linkFor(service.token(roles)))
      await waitForText(page, 'Connected')
      t.strictSame(await navigation(page), views, roles.join())
      t.strictSame(offences, [])
    }
  })

  await t.test('back, forward and reload keep the view', async () => {
    const { page } = await openTab(browser, link)
    const heading = (text: string) =>
      page.waitForFunction(text => document.querySelector('main h2')?.textContent === text, {}, text)
    for (const view of ['Settings', 'Status']) {
      await page.locator(`nav a::-p-text(${view})`).click()
      await heading(view)
    }
    await page.goBack()
    await heading('Settings')
    await page.goForward()
    await heading('Status')
    await page.reload()
    await heading('Status')
  })
})

t.test('the end of a credential', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)

  await t.test('a token that expires', async t => {
    const clock = new ManualClock()
    const { service } = await startPageDevice(t, { clock, env: { RECEIVERD_HEARTBEAT_S: '1' } })
    const exp = Math.floor(Date.now() / 1000) + 3_600
    const { page } = await openTab(browser, `${service.url}/#key=${service.token(['admin:r'], { exp })}`)
    await waitForText(page, 'Meeting Room 4')
    clock.step(2 * 3_600_000)
    await waitForText(page, 'Your token has expired.')
    t.strictSame(await stored(page), { session: [], local: [] })
  })

  await t.test('not a clock that is set back while the page is open', async t => {
    const { clock, service, token } = await startClockDevice(t, ['admin:r'], { RECEIVERD_HEARTBEAT_S: '1' })
    const { page } = await openTab(browser, `${service.url}/#key=${token}`)
    await waitForText(page, 'Meeting Room 4')
    clock.step(-HOUR_MS)
    await waitForText(page, CLOCK_NOT_SET)
    t.strictSame(await stored(page), { session: [token], local: [] })
    await page.reload()
    await waitForText(page, CLOCK_NOT_SET)
    clock.step(HOUR_MS)
    await waitForText(page, 'Meeting Room 4')
  })

  await t.test('the key is replaced by somebody else', async t => {
    const { service, link } = await startPageDevice(t)
    const { page } = await openTab(browser, link)
    await waitForText(page, 'Meeting Room 4')
    await replaceKey(service)
    await waitForText(page, 'The API key of this device was replaced.')
    await signIn(page, service.key)
    await waitForText(page, 'Meeting Room 4')
  })

  await t.test('a token that may only change settings, which no stream tells of', async t => {
    const { service } = await startPageDevice(t)
    const { page } = await openTab(browser, `${service.url}/#key=${service.token(['admin:w'])}`, lookOften)
    await waitForText(page, 'Connected')
    await page.setOfflineMode(true)
    await waitForText(page, 'Not connected')
    await page.setOfflineMode(false)
    await waitForText(page, 'Connected')
    await replaceKey(service)
    await waitForText(page, 'Paste the API key')
  })
})

t.test('a token that is refused only for now', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  /** A device that has just started, and has no battery for its clock. */
  const withoutClock = async (t: Test) => {
    const device = await startClockDevice(t, ['moderator:rw', 'admin:r'])
    device.clock.step(-HOUR_MS)
    return device
  }

  await t.test('waits for the clock, also over a reload, and opens the device by itself', async t => {
    const { clock, service, token } = await withoutClock(t)
    const { page, offences } = await openTab(browser, `${service.url}/#key=${token}`)
    await waitForText(page, CLOCK_NOT_SET)
    t.strictSame(await stored(page), { session: [token], local: [] })
    await page.reload()
    await waitForText(page, CLOCK_NOT_SET)
    clock.step(HOUR_MS)
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(offences, [])
  })

  await t.test('waits as well if somebody has just entered it, and gives way to another one', async t => {
    const { service, token } = await withoutClock(t)
    const { page } = await openTab(browser, service.url)
    await page.locator('::-p-text(Stay signed in)').click()
    await signIn(page, token)
    await waitForText(page, CLOCK_NOT_SET)
    t.strictSame(await stored(page), { session: [], local: [token] })
    await page.locator('button::-p-text(Sign out)').click()
    await signIn(page, service.key)
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(await stored(page), { session: [service.key], local: [] })
  })

  await t.test('that of a link takes the place of no other one before it is accepted', async t => {
    const { clock, service, token } = await withoutClock(t)
    const { page } = await openTab(browser, `${service.url}/#key=${service.key}`)
    await waitForText(page, 'Meeting Room 4')
    await openLink(page, `key=${token}`)
    await waitForText(page, CLOCK_NOT_SET)
    t.strictSame(await stored(page), { session: [service.key], local: [] })
    clock.step(HOUR_MS)
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(await stored(page), { session: [token], local: [] })
  })

  await t.test('signing out forgets it, also if it came again by a link', async t => {
    const { service, token } = await withoutClock(t)
    const { page } = await openTab(browser, `${service.url}/#key=${token}`)
    await waitForText(page, CLOCK_NOT_SET)
    await openLink(page, `key=${token}`)
    await page.waitForFunction(() => location.hash === '')
    await waitForText(page, CLOCK_NOT_SET)
    await page.locator('button::-p-text(Sign out)').click()
    await waitForText(page, 'Paste the API key')
    t.strictSame(await stored(page), { session: [], local: [] })
  })

  await t.test('signing out leaves one that is kept for all tabs', async t => {
    const { service, token } = await withoutClock(t)
    const { page } = await openTab(browser, service.url)
    await page.locator('::-p-text(Stay signed in)').click()
    await signIn(page, service.key)
    await waitForText(page, 'Meeting Room 4')
    await openLink(page, `key=${token}`)
    await waitForText(page, CLOCK_NOT_SET)
    await page.locator('button::-p-text(Sign out)').click()
    await waitForText(page, 'Paste the API key')
    t.strictSame(await stored(page), { session: [], local: [service.key] })
  })

  await t.test('does not hide that somebody must sign in to keep a change', async t => {
    const { service, token } = await withoutClock(t)
    const { page } = await openTab(browser, `${service.url}/#key=${token}`)
    await waitForText(page, CLOCK_NOT_SET)
    await openLink(page, 'confirm')
    await waitForText(page, 'Sign in to keep the change.')
    await waitForText(page, CLOCK_NOT_SET)
    await page.locator('button::-p-text(Sign out)').click()
    await waitForText(page, 'Paste the API key')
    await waitForText(page, 'Sign in to keep the change.')
  })

  await t.test('waits for its first moment, and is forgotten if it turns out to have expired', async t => {
    const clock = new ManualClock()
    const { service } = await startPageDevice(t, { clock })
    const nowS = Math.floor(Date.now() / 1000)
    const token = service.token(['admin:r'], { nbf: nowS + 3_600, exp: nowS + 7_200 })
    const { page } = await openTab(browser, `${service.url}/#key=${token}`)
    await waitForText(page, 'The token is not valid yet.')
    clock.step(3 * HOUR_MS)
    await waitForText(page, 'The token has expired.')
    await waitForText(page, 'Paste the API key')
    t.strictSame(await stored(page), { session: [], local: [] })
  })

  await t.test('while the device is shown, where no stream tells of it', async t => {
    const { clock, service, token } = await startClockDevice(t, ['admin:w'])
    const { page } = await openTab(browser, `${service.url}/#key=${token}`, lookOften)
    await waitForText(page, 'Connected')
    clock.step(-HOUR_MS)
    await waitForText(page, CLOCK_NOT_SET)
    clock.step(HOUR_MS)
    await waitForNoText(page, CLOCK_NOT_SET)
    await waitForText(page, 'Connected')
  })
})

/** A device whose clock can be set, and a token for the next hour. */
async function startClockDevice(t: Test, roles: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const clock = new ManualClock()
  const { service } = await startPageDevice(t, { clock, builtAt: Date.now(), env })
  const token = service.token(roles, { exp: Math.floor(Date.now() / 1000) + 3_600 })
  return { clock, service, token }
}

/** Has the page look twenty times as often at what no stream tells of. */
async function lookOften(page: Page): Promise<void> {
  await page.evaluateOnNewDocument(() => {
    const { setInterval } = window
    window.setInterval = ((act: () => void, ms = 0) => setInterval(act, ms / 20)) as typeof window.setInterval
  })
}

/** Opens a link to the page that is shown. */
async function openLink(page: Page, fragment: string): Promise<void> {
  await page.evaluate(fragment => {
    location.hash = fragment
  }, fragment)
}

async function replaceKey(service: TestService): Promise<void> {
  await service.fetch('/api-key', { method: 'POST' })
}
