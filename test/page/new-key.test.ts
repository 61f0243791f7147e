/** The API key is replaced on the page, which has the only copy of the new one until the device answers. */
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { TestIssuer } from '../support/issuer.ts'
import { intercept, missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import {
  click,
  fill,
  goTo,
  reload,
  replaceKey,
  signIn,
  stored,
  tryToReload,
  valueIn,
  waitForNoText,
  waitForText,
} from './steps.ts'

t.test('a new API key', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  const { service } = await startPageDevice(t)
  const link = () => `${service.url}/#key=${service.key}`

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
    await replaceKey(page)
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
        // Without the issuers, the key is shown, too.
        if (path.endsWith('/api-key') || path.endsWith('/issuers')) await new Promise(() => undefined)
        return answer
      }),
    )
    const { key } = service
    await replaceKey(page)
    await eventually(() => service.key !== key)
    t.strictSame(await tryToReload(page), ['beforeunload'])
    await reload(page)
    await waitForText(page, 'The new API key')
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.strictSame(await stored(page), { session: [service.key], local: [] })
  })

  await t.test('the same, and the device is away until the next reload', async t => {
    const seen = { isHeld: true, answers: Number.POSITIVE_INFINITY }
    const { page } = await openTab(browser, link())
    await waitForText(page, 'Connected')
    const { key } = service
    await page.setRequestInterception(true)
    page.on('request', async request => {
      const { pathname } = new URL(request.url())
      if (!pathname.startsWith('/api/')) return request.continue()
      if (seen.answers-- <= 0) return request.abort()
      if (!seen.isHeld || !pathname.endsWith('/api-key')) return request.continue()
      const body = request.postData() ?? null
      await fetch(request.url(), { method: 'POST', headers: request.headers(), body })
    })
    const body = new TestIssuer('branch').file()
    const headers = { 'Content-Type': 'application/json' }
    t.equal((await service.fetch('/issuers/branch', { method: 'PUT', headers, body })).status, 201)
    await replaceKey(page)
    await eventually(() => service.key !== key)
    // The old key is still refused.
    seen.answers = 1
    await reload(page)
    await waitForText(page, 'The device does not answer. Trying again')
    Object.assign(seen, { isHeld: false, answers: Number.POSITIVE_INFINITY })
    await page.reload()
    await waitForText(page, 'The new API key')
    await waitForText(page, 'their tokens are accepted: branch')
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.strictSame(await stored(page), { session: [service.key], local: [] })
    t.equal((await service.fetch('/issuers/branch', { method: 'DELETE' })).status, 204)
  })

  await t.test('an answer of a proxy that does not reach the device is none', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        const answer = await real()
        if (!path.endsWith('/api-key') || !answer.ok) return answer
        const seen = globalThis as unknown as { statuses?: number[] }
        seen.statuses ??= [502, 503, 504, 429]
        const status = seen.statuses.shift()
        return status === undefined ? answer : new Response('<h1>Bad Gateway</h1>', { status })
      }),
    )
    const { key } = service
    await replaceKey(page)
    await waitForText(page, 'This page keeps asking')
    await waitForText(page, 'The new API key')
    t.not(service.key, key)
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    await waitForText(page, 'Connected')
    t.strictSame(await stored(page), { session: [service.key], local: [] })
  })

  await t.test('any other answer after which the old key is refused: the new one is shown', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        const answer = await real()
        return path.endsWith('/api-key') ? new Response('', { status: 500 }) : answer
      }),
    )
    const { key } = service
    await replaceKey(page)
    await waitForText(page, 'The new API key')
    t.not(service.key, key)
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.strictSame(await stored(page), { session: [service.key], local: [] })
  })

  await t.test('a key that the device refused is sent again, in case it has it nevertheless', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        if (!path.endsWith('/api-key') || 'failed' in globalThis) return real()
        Object.assign(globalThis, { failed: true })
        return new Response('', { status: 500 })
      }),
    )
    await replaceKey(page)
    await waitForText(page, 'The device answered with status 500.')
    const [, next] = (await stored(page)).session
    await replaceKey(page)
    await waitForText(page, 'The new API key')
    t.equal(service.key, next?.split(' ')[1])
    t.strictSame(await stored(page), { session: [service.key], local: [] })
  })

  await t.test('somebody else replaces the key first: it is asked for', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        if (path.endsWith('/api-key') && !('failed' in globalThis)) {
          Object.assign(globalThis, { failed: true })
          throw new TypeError('Failed to fetch')
        }
        return real()
      }),
    )
    await replaceKey(page)
    await waitForText(page, 'This page keeps asking')
    await service.fetch('/api-key', { method: 'POST' })
    await waitForText(page, 'Paste the API key')
    t.strictSame(await stored(page), { session: [], local: [] })
  })

  await t.test('a new key that nobody has seen yet is only for whoever has the old one', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        const answer = await real()
        if (path.endsWith('/api-key')) await new Promise(() => undefined)
        return answer
      }),
    )
    const { key } = service
    await replaceKey(page)
    await eventually(() => service.key !== key)
    await page.evaluate(() => {
      location.hash = `#key=${'A'.repeat(43)}`
    })
    await waitForText(page, 'The API key is being replaced.')
    await click(page, 'Use the link?', 'Use that')
    await waitForText(page, 'not the API key')
    await signIn(page, key)
    await waitForText(page, 'The new API key')
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    t.strictSame(await stored(page), { session: [service.key], local: [] })
  })

  await t.test('the dialog with the new key stays until that key is refused', async t => {
    const { page } = await openTab(browser, link())
    const token = service.token(['moderator:rw'])
    await replaceKey(page)
    await waitForText(page, 'The new API key')
    await waitForText(page, 'Connected')
    const use = (credential: string) =>
      page.evaluate(link => location.assign(link), `${service.url}/#key=${credential}`)
    await use(token)
    await waitForText(page, 'Copy the new API key first')
    await click(page, 'Use the link?', 'Cancel')
    t.strictSame(await stored(page), { session: [service.key], local: [] })
    await use(token)
    await click(page, 'Use the link?', 'Use that')
    await waitForText(page, 'Paste the API key')
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    await use(service.key)
    await click(page, 'Use the link?', 'Use that')
    await waitForText(page, 'Connected')
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key)
    await service.fetch('/api-key', { method: 'POST' })
    await waitForText(page, 'The API key of this device was replaced.')
    await waitForNoText(page, 'The new API key')
  })

  await t.test('after signing out, the page does not go on replacing the key', async t => {
    const seen = { isAway: true, attempts: 0 }
    const { page } = await openTab(browser, link())
    await waitForText(page, 'Connected')
    await page.setRequestInterception(true)
    page.on('request', request => {
      const isKey = request.url().endsWith('/api-key')
      if (isKey) seen.attempts++
      return isKey && seen.isAway ? request.abort() : request.continue()
    })
    const { key } = service
    await replaceKey(page)
    await waitForText(page, 'This page keeps asking')
    await page.locator('button::-p-text(Sign out)').click()
    await waitForText(page, 'The API key is being replaced.')
    await click(page, 'Sign out?', 'Sign out')
    await waitForText(page, 'Paste the API key')
    t.strictSame(await stored(page), { session: [], local: [] })
    const { attempts } = seen
    seen.isAway = false
    // Longer than the page waits between two attempts.
    await new Promise(resolve => setTimeout(resolve, 1_500))
    t.equal(seen.attempts, attempts)
    t.equal(service.key, key)
  })

  await t.test('signing out as another tab has forgets the new key, too', async t => {
    const { page } = await openTab(browser, link())
    await page.evaluate(key => localStorage.setItem('receiverd /', key), service.key)
    await page.evaluate(() => sessionStorage.clear())
    await reload(page)
    await waitForText(page, 'Connected')
    const other = await openTab(page.browserContext(), service.url)
    await page.bringToFront()
    await page.setRequestInterception(true)
    page.on('request', request => (request.url().endsWith('/api-key') ? request.abort() : request.continue()))
    await replaceKey(page)
    await waitForText(page, 'This page keeps asking')
    t.equal((await stored(page)).session.length, 1)
    await other.page.evaluate(() => localStorage.removeItem('receiverd /'))
    await click(page, 'Somebody signed in or out in another tab. Do the same here?', 'Do the same')
    await waitForText(page, 'Paste the API key')
    t.strictSame(await stored(page), { session: [], local: [] })
  })

  await t.test('signing out while the key is replaced', async t => {
    const { page } = await openTab(browser, link(), page =>
      intercept(page, async (path, real) => {
        const answer = await real()
        if (path.endsWith('/api-key')) await new Promise(resolve => addEventListener('signedout', resolve))
        return answer
      }),
    )
    await replaceKey(page)
    await page.locator('button::-p-text(Sign out)').click()
    await click(page, 'Sign out?', 'Sign out')
    await page.evaluate(() => dispatchEvent(new Event('signedout')))
    await waitForText(page, 'The new API key')
    t.equal(await valueIn(page, 'The new API key', 'API key'), service.key, 'nobody else can tell it')
    t.strictSame(await stored(page), { session: [], local: [] })
  })
})
