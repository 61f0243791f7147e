import type { Page } from 'puppeteer-core'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { intercept, missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import {
  click,
  fill,
  goTo,
  replaceKey,
  signIn,
  stored,
  tryToReload,
  valueIn,
  waitForNoText,
  waitForText,
} from './steps.ts'

t.test('the stored credential', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  const { service } = await startPageDevice(t)
  const link = () => `${service.url}/#key=${service.key}`

  const openKept = async () => {
    const tab = await openTab(browser, service.url)
    await tab.page.locator('::-p-text(Stay signed in)').click()
    await signIn(tab.page, service.key)
    await waitForText(tab.page, 'Meeting Room 4')
    return tab
  }

  await t.test('a link with a wrong credential does not replace it', async t => {
    const { page, offences } = await openKept()
    await page.evaluate(() => {
      location.hash = '#key=nonsense'
    })
    await waitForText(page, 'The credential is neither an API key')
    t.strictSame(await stored(page), { session: [], local: [service.key] })
    await page.reload()
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(offences, [])
  })

  await t.test('where the browser blocks web storage, the page works until it is left', async t => {
    const block = (page: Page) =>
      page
        .evaluateOnNewDocument(() => {
          for (const name of ['sessionStorage', 'localStorage'])
            Object.defineProperty(window, name, {
              get() {
                throw new DOMException('Access is denied for this document.', 'SecurityError')
              },
            })
        })
        .then(() => undefined)
    const { page, offences } = await openTab(browser, link(), block)
    await waitForText(page, 'Meeting Room 4')
    await page.locator('button::-p-text(Sign out)').click()
    await waitForText(page, 'Paste the API key')
    await signIn(page, service.key)
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(offences, [])
  })

  await t.test('a tab with a credential of its own does not follow the others', async t => {
    const other = await openKept()
    const token = service.token(['moderator:rw'])
    const own = await openTab(other.page.browserContext(), service.url, page =>
      page
        .evaluateOnNewDocument((name, token) => sessionStorage.setItem(name, token), 'receiverd /', token)
        .then(() => undefined),
    )
    await waitForText(own.page, 'No device is waiting.')
    await other.page.bringToFront()
    await other.page.locator('button::-p-text(Sign out)').click()
    await waitForText(other.page, 'Paste the API key')
    t.strictSame(await stored(own.page), { session: [token], local: [] })
    t.match(await own.page.evaluate(() => document.body.innerText), 'No device is waiting.')
  })

  await t.test('a tab replaces the kept key, and takes the others along', async t => {
    const { page, offences } = await openKept()
    const other = await openTab(page.browserContext(), service.url)
    await waitForText(other.page, 'Meeting Room 4')
    // Two windows side by side: both follow their streams.
    const session = await other.page.createCDPSession()
    await session.send('Emulation.setFocusEmulationEnabled', { enabled: true })
    await page.bringToFront()
    await replaceKey(page)
    await waitForText(page, 'The new API key')
    await new Promise(resolve => setTimeout(resolve, 500))
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.strictSame(await stored(page), { session: [], local: [service.key] })
    await waitForText(other.page, 'Connected')
    t.strictSame(await tryToReload(page), ['beforeunload'], 'the key is shown only now')
    await other.page.locator('button::-p-text(Sign out)').click()
    await waitForText(page, 'Paste the API key')
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.strictSame(offences, [])
  })

  await t.test('a link signs in its own tab, and leaves the kept key to the others', async t => {
    const { page } = await openKept()
    const token = service.token(['moderator:rw'])
    const other = await openTab(page.browserContext(), `${service.url}/#key=${token}`)
    await waitForText(other.page, 'No device is waiting.')
    t.strictSame(await stored(other.page), { session: [token], local: [service.key] })
    t.strictSame(await stored(page), { session: [], local: [service.key] })
    const same = await openTab(page.browserContext(), link())
    await waitForText(same.page, 'Meeting Room 4')
    t.strictSame(await stored(same.page), { session: [], local: [service.key] }, 'and goes on following the others')
  })

  await t.test('a link without a credential decides nothing by the kept one', async t => {
    const { page } = await openKept()
    const { key } = service
    const trial = async () =>
      ((await (await service.fetch('/status')).json()) as { trial?: { etag: string } }).trial !== undefined
    t.equal((await service.patch({ hostname: 'of-others' }, {}, '?confirmWithin=600')).status, 200)
    const QUESTION = 'Keep the change?'
    const other = await openTab(page.browserContext(), `${service.url}/#confirm&joining=Nowhere&setup&moved`)
    await click(other.page, QUESTION, 'Cancel')
    await waitForText(other.page, 'Meeting Room 4')
    t.ok(await trial(), 'neither kept nor undone')
    t.equal(service.key, key, 'nor is it a reason to replace the key')
    t.strictSame(other.offences, [])
    // A browser has six connections to a device, for all tabs.
    await other.page.close()
    const again = await openTab(page.browserContext(), `${service.url}/#confirm&setup`)
    await click(again.page, QUESTION, 'Keep it')
    await waitForText(again.page, 'Saved. The device can still be reached.')
    t.notOk(await trial())
    t.equal(service.key, key)
    await again.page.close()
    const last = await openTab(page.browserContext(), `${service.url}/#confirm&setup`)
    await waitForText(last.page, 'Meeting Room 4')
    await waitForText(last.page, 'Connected')
    t.notMatch(await last.page.evaluate(() => document.body.innerText), QUESTION, 'where there is none')
  })

  await t.test('nor does the question keep another change than the one it asks about', async t => {
    const { page } = await openKept()
    const other = await openTab(page.browserContext(), service.url)
    const LATE = 'The change was not confirmed in time, so the device has undone it.'
    for (const next of [undefined, 'theirs']) {
      t.equal((await service.patch({ hostname: 'mine' }, {}, '?confirmWithin=600')).status, 200)
      await other.page.goto('about:blank')
      await other.page.goto(`${service.url}/#confirm`)
      await waitForText(other.page, 'Keep the change?')
      t.equal((await service.fetch('/system/confirm', { method: 'DELETE' })).status, 200)
      if (next) t.equal((await service.patch({ hostname: next }, {}, '?confirmWithin=600')).status, 200)
      await click(other.page, 'Keep the change?', 'Keep it')
      await waitForText(other.page, LATE)
    }
    t.equal((await service.fetch('/system/confirm', { method: 'DELETE' })).status, 200, 'theirs is still on trial')
  })

  await t.test('nor is the key replaced when somebody signs in there', async t => {
    const { page } = await openTab(browser, `${service.url}/#confirm&setup`)
    const { key } = service
    await waitForText(page, 'Sign in to keep the change.')
    await signIn(page, key)
    await waitForText(page, 'Connected')
    await new Promise(resolve => setTimeout(resolve, 500))
    t.equal(service.key, key)
    t.strictSame(await stored(page), { session: [key], local: [] })
  })

  await t.test('signing out of a link leaves the kept key to the other tabs', async t => {
    const { page } = await openKept()
    const token = service.token(['moderator:rw'])
    const other = await openTab(page.browserContext(), `${service.url}/#key=${token}`)
    await waitForText(other.page, 'No device is waiting.')
    await other.page.locator('button::-p-text(Sign out)').click()
    await waitForText(other.page, 'Paste the API key')
    t.strictSame(await stored(other.page), { session: [], local: [service.key] })
    t.match(await page.evaluate(() => document.body.innerText), 'Meeting Room 4')
  })

  await t.test('signing in for one tab leaves the kept key to the other tabs', async t => {
    const token = service.token(['moderator:rw'])
    const ends: readonly (readonly [credential: string, end: (page: Page) => Promise<void>])[] = [
      [token, page => page.locator('button::-p-text(Sign out)').click()],
      ['A'.repeat(43), page => waitForText(page, 'not the API key')],
    ]
    for (const [credential, end] of ends) {
      const { page } = await openKept()
      const other = await openTab(page.browserContext(), `${service.url}/#key=${credential}`)
      await end(other.page)
      await signIn(other.page, token)
      await waitForText(other.page, 'No device is waiting.')
      t.strictSame(await stored(other.page), { session: [token], local: [service.key] })
      t.match(await page.evaluate(() => document.body.innerText), 'Meeting Room 4')
    }
  })

  await t.test('a kept key that was refused does not stay where somebody signs in for one tab', async t => {
    const { page } = await openKept()
    await service.fetch('/api-key', { method: 'POST' })
    await waitForText(page, 'The API key of this device was replaced.')
    await signIn(page, service.key)
    await waitForText(page, 'Meeting Room 4')
    t.strictSame(await stored(page), { session: [service.key], local: [] })
  })

  await t.test('a link that is being opened does not follow the other tabs', async t => {
    const { page } = await openKept()
    const token = service.token(['moderator:rw'])
    const seen = { isAway: true }
    const other = await openTab(page.browserContext(), `${service.url}/#key=${token}`, async page => {
      await page.setRequestInterception(true)
      page.on('request', request =>
        seen.isAway && request.url().includes('/api/') ? request.abort() : request.continue(),
      )
    })
    await waitForText(other.page, 'Trying again')
    await page.bringToFront()
    await page.locator('button::-p-text(Sign out)').click()
    await waitForText(page, 'Paste the API key')
    seen.isAway = false
    await waitForText(other.page, 'No device is waiting.')
    t.strictSame(await stored(other.page), { session: [token], local: [] })
  })

  await t.test('a token that grants nothing is refused, and the kept key is not taken in its place', async t => {
    const { page } = await openKept()
    const other = await openTab(page.browserContext(), `${service.url}/#key=${service.token([])}`)
    await waitForText(other.page, 'it grants nothing that this page shows')
    t.strictSame(await stored(other.page), { session: [], local: [service.key] })
  })

  await t.test('a link without a credential is opened in a tab that is open already', async t => {
    const { page } = await openTab(browser, link())
    await waitForText(page, 'Connected')
    await goTo(page, 'Settings')
    t.equal((await service.patch({ hostname: 'pasted' }, {}, '?confirmWithin=600')).status, 200)
    await page.evaluate(link => location.assign(link), `${service.url}/#confirm`)
    await click(page, 'Keep the change?', 'Cancel')
    t.equal(page.url(), `${service.url}/`)
    t.ok((await service.fetch('/system/confirm', { method: 'POST' })).ok)
  })

  await t.test('a tab with the kept key as its own replaces both', async t => {
    const { page } = await openTab(browser, link())
    await waitForText(page, 'Meeting Room 4')
    await page.evaluate(key => localStorage.setItem('receiverd /', key), service.key)
    const { key } = service
    await replaceKey(page)
    await waitForText(page, 'The new API key')
    t.not(service.key, key)
    t.strictSame(await stored(page), { session: [], local: [service.key] })
  })

  const QUESTION = 'Somebody signed in or out in another tab. Do the same here?'
  /** A tab with an entry that is not saved, and another one, both with the kept key. */
  const openTyping = async () => {
    const { page } = await openKept()
    const other = await openTab(page.browserContext(), service.url)
    await waitForText(other.page, 'Meeting Room 4')
    await page.bringToFront()
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Device name', 'Being typed')
    return { page, other }
  }

  await t.test('a tab asks before it follows another one and loses entries', async t => {
    const { page, other } = await openTyping()
    const signOut = async () => {
      await other.page.bringToFront()
      await other.page.locator('button::-p-text(Sign out)').click()
      await waitForText(other.page, 'Paste the API key')
      await page.bringToFront()
      await waitForText(page, 'Your changes are not saved.')
    }
    await signOut()
    await click(page, QUESTION, 'Cancel')
    t.equal(await valueIn(page, 'General', 'Device name'), 'Being typed')
    await other.page.bringToFront()
    await other.page.locator('::-p-text(Stay signed in)').click()
    await signIn(other.page, service.key)
    await waitForText(other.page, 'Meeting Room 4')
    await signOut()
    await click(page, QUESTION, 'Do the same')
    await waitForText(page, 'Paste the API key')
  })

  await t.test('after “Cancel”, a tab follows another one as soon as nothing would be lost', async t => {
    const { page, other } = await openTyping()
    const questions = () => page.$$eval('dialog', dialogs => dialogs.length)
    // As another tab does, without its page.
    const store = (...credentials: readonly string[]) =>
      other.page.evaluate(credentials => {
        for (const credential of credentials) localStorage.setItem('receiverd /', credential)
      }, credentials)
    await store('A'.repeat(43), 'B'.repeat(43), 'C'.repeat(43))
    await waitForText(page, QUESTION)
    await new Promise(resolve => setTimeout(resolve, 300))
    t.equal(await questions(), 1, 'one question at a time')
    await store(service.key)
    await waitForNoText(page, QUESTION)
    t.equal(await valueIn(page, 'General', 'Device name'), 'Being typed')
    await other.page.evaluate(() => localStorage.removeItem('receiverd /'))
    await click(page, QUESTION, 'Cancel')
    t.equal(await valueIn(page, 'General', 'Device name'), 'Being typed')
    await click(page, 'General', 'Discard')
    await waitForText(page, 'Paste the API key')
    t.equal(await questions(), 0)
  })

  await t.test('a credential that no header can carry is refused, not tried for ever', async t => {
    for (const credential of ['%D0%BA%D0%BB%D1%8E%D1%87', 'a%0Ab', 'A'.repeat(9_000)]) {
      const { page } = await openTab(browser, `${service.url}/#key=${credential}`)
      await waitForText(page, 'neither an API key')
      t.strictSame(await stored(page), { session: [], local: [] })
    }
  })

  await t.test('a reload in search of a new certificate does not lose the credential of a link', async t => {
    const seen = { isAway: true }
    const { page } = await openTab(browser, `https://receiver.test/#key=${service.key}`, async page => {
      await page.setRequestInterception(true)
      page.on('request', async request => {
        const { pathname } = new URL(request.url())
        const isStream = pathname.endsWith('/events')
        if (isStream || (seen.isAway && pathname.startsWith('/api/'))) return request.abort()
        const answer = await fetch(service.url + pathname, { headers: request.headers() })
        request.respond({
          status: answer.status,
          contentType: answer.headers.get('content-type') ?? '',
          body: Buffer.from(await answer.arrayBuffer()),
        })
      })
    })
    await waitForText(page, 'it may have a new certificate')
    seen.isAway = false
    // Before the page itself tries again.
    await page.evaluate(() =>
      [...document.querySelectorAll('button')].find(({ textContent }) => textContent === 'Reload')?.click(),
    )
    await page.waitForNavigation()
    await waitForText(page, 'Meeting Room 4')
    t.equal(page.url(), 'https://receiver.test/')
    t.strictSame(await stored(page), { session: [service.key], local: [] })
  })

  await t.test('an offer to reload keeps the focus while the page tries again', async t => {
    const seen = { attempts: 0 }
    const { page } = await openTab(browser, `https://receiver.test/#key=${service.key}`, async page => {
      await page.setRequestInterception(true)
      page.on('request', async request => {
        const { pathname } = new URL(request.url())
        if (pathname.startsWith('/api/')) {
          seen.attempts++
          return request.abort()
        }
        const answer = await fetch(service.url + pathname)
        request.respond({
          status: answer.status,
          contentType: answer.headers.get('content-type') ?? '',
          body: Buffer.from(await answer.arrayBuffer()),
        })
      })
    })
    await waitForText(page, 'it may have a new certificate')
    await page.keyboard.press('Tab')
    const focused = () => page.evaluate(() => document.activeElement?.textContent)
    t.equal(await focused(), 'Reload')
    const { attempts } = seen
    await eventually(() => seen.attempts === attempts + 2)
    t.equal(await focused(), 'Reload')
  })

  await t.test('an answer that is cut off is asked for again', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        const isFirst = path.endsWith('/openapi.json') && !('cut' in globalThis)
        if (!isFirst) return real()
        Object.assign(globalThis, { cut: true })
        return new Response('{"openapi": ')
      }),
    )
    await waitForText(page, 'Meeting Room 4')
    t.ok(await page.evaluate(() => 'cut' in globalThis))
  })
})
