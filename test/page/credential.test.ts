import type { Page } from 'puppeteer-core'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { TestIssuer } from '../support/issuer.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import { click, enter, fill, goTo, stored, valueIn, waitForText } from './steps.ts'

t.test('the stored credential', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  const { service } = await startPageDevice(t)
  const link = () => `${service.url}/#key=${service.key}`

  const openKept = async () => {
    const tab = await openTab(browser, service.url)
    await tab.page.locator('::-p-text(Stay signed in)').click()
    await enter(tab.page, 'API key or token', `${service.key}\n`)
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
    await enter(page, 'API key or token', `${service.key}\n`)
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
    await goTo(page, 'Access')
    await click(page, 'API key', 'Replace the API key…')
    await click(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', 'Replace the API key')
    await waitForText(page, 'The new API key')
    await new Promise(resolve => setTimeout(resolve, 500))
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.strictSame(await stored(page), { session: [], local: [service.key] })
    await waitForText(other.page, 'Connected')
    const asked: string[] = []
    page.on('dialog', dialog => {
      asked.push(dialog.type())
      dialog.dismiss()
    })
    await page.reload({ timeout: 1_000 }).catch(() => undefined)
    t.strictSame(asked, ['beforeunload'], 'the key is shown only now')
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

  await t.test('a tab asks before it follows another one and loses entries', async t => {
    const { page } = await openKept()
    const other = await openTab(page.browserContext(), service.url)
    await waitForText(other.page, 'Meeting Room 4')
    await page.bringToFront()
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Device name', 'Being typed')
    const signOut = async () => {
      await other.page.bringToFront()
      await other.page.locator('button::-p-text(Sign out)').click()
      await waitForText(other.page, 'Paste the API key')
      await page.bringToFront()
      await waitForText(page, 'Your changes are not saved.')
    }
    const QUESTION = 'Somebody signed in or out in another tab. Do the same here?'
    await signOut()
    await click(page, QUESTION, 'Cancel')
    t.equal(await valueIn(page, 'General', 'Device name'), 'Being typed')
    await other.page.bringToFront()
    await other.page.locator('::-p-text(Stay signed in)').click()
    await enter(other.page, 'API key or token', `${service.key}\n`)
    await waitForText(other.page, 'Meeting Room 4')
    await signOut()
    await click(page, QUESTION, 'Do the same')
    await waitForText(page, 'Paste the API key')
  })

  await t.test('a credential that no header can carry is refused, not tried for ever', async t => {
    for (const credential of ['%D0%BA%D0%BB%D1%8E%D1%87', 'a%0Ab', 'A'.repeat(9_000)]) {
      const { page } = await openTab(browser, `${service.url}/#key=${credential}`)
      await waitForText(page, 'neither an API key')
      t.strictSame(await stored(page), { session: [], local: [] })
    }
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

  await t.test('the key is replaced, but the answer is lost: the page asks again, and has it', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        const answer = await real()
        if (!path.endsWith('/api-key') || 'lost' in globalThis) return answer
        Object.assign(globalThis, { lost: true })
        throw new TypeError('Failed to fetch')
      }),
    )
    const body = new TestIssuer('office').file()
    const headers = { 'Content-Type': 'application/json' }
    t.equal((await service.fetch('/issuers/office', { method: 'PUT', headers, body })).status, 201)
    const { key } = service
    await goTo(page, 'Access')
    await click(page, 'API key', 'Replace the API key…')
    await click(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', 'Replace the API key')
    await waitForText(page, 'The new API key')
    await waitForText(page, 'These issuers stay, and their tokens are accepted: office.')
    t.not(service.key, key)
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.ok(await page.evaluate(() => 'lost' in globalThis))
    await waitForText(page, 'Connected')
  })

  await t.test('entries that would be lost with the old key are spoken of first', async t => {
    const { page } = await openTab(browser, link())
    const isSpokenOf = async () => {
      await goTo(page, 'Access')
      await click(page, 'API key', 'Replace the API key…')
      const text = await page.$eval('dialog', dialog => dialog.innerText)
      await click(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', 'Cancel')
      return text.includes('Your changes are not saved.')
    }
    t.notOk(await isSpokenOf())
    await goTo(page, 'Settings')
    await fill(page, 'General', 'Device name', 'Being typed')
    t.ok(await isSpokenOf())
  })

  await t.test('the key is replaced, and the page is left before the answer: it goes on with the new one', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        const answer = await real()
        if (path.endsWith('/api-key')) await new Promise(() => undefined)
        return answer
      }),
    )
    const { key } = service
    await goTo(page, 'Access')
    await click(page, 'API key', 'Replace the API key…')
    await click(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', 'Replace the API key')
    await eventually(() => service.key !== key)
    await page.reload()
    await waitForText(page, 'Connected')
    t.strictSame(await stored(page), { session: [service.key], local: [] })
  })

  await t.test('signing out while the key is replaced', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        const answer = await real()
        if (path.endsWith('/api-key')) await new Promise(resolve => setTimeout(resolve, 1_500))
        return answer
      }),
    )
    await goTo(page, 'Access')
    await click(page, 'API key', 'Replace the API key…')
    await click(page, 'Replace the API key of \u2068Meeting Room 4\u2069?', 'Replace the API key')
    await page.locator('button::-p-text(Sign out)').click()
    await waitForText(page, 'The new API key')
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key, 'nobody else can tell it')
    t.strictSame(await stored(page), { session: [], local: [] })
  })
})

/** Puts itself between the page and `fetch`. */
async function intercept(
  page: Page,
  answer: (path: string, real: () => Promise<Response>) => Promise<Response>,
): Promise<void> {
  await page.evaluateOnNewDocument(`{
    const real = fetch
    const answer = ${answer}
    globalThis.fetch = (path, options) => answer(path, () => real(path, options))
  }`)
}
