import t from 'tap'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { sessionsOf, startPageDevice } from './device.ts'
import { waitForNoText, waitForText } from './steps.ts'

t.test('a moderator with a phone', { skip: missingBrowser('chrome') }, async t => {
  const { service, ask } = await startPageDevice(t)
  const browser = await startBrowser(t)
  const moderator = service.token(['moderator:rw'])
  const { page, offences } = await openTab(browser, `${service.url}/#key=${moderator}`, page =>
    page.setViewport({ width: 360, height: 740, hasTouch: true, isMobile: true }),
  )
  const tap = (button: string) => page.locator(`::-p-aria([name="${button}"][role="button"])`).click()
  await waitForText(page, 'No device is waiting.')

  await t.test('lets a device in, and ends it', async t => {
    const engine = await ask('Ann’s iPhone')
    await waitForText(page, 'Ann’s iPhone')
    t.match(await page.title(), /^\(1\) /)
    await tap('Let in: Ann’s iPhone')
    await waitForText(page, 'No device is waiting.')
    t.match(await engine.line(), { state: 'pending' })
    t.match(await engine.line(), { state: 'active' })
    await tap('End: Ann’s iPhone')
    t.match(await engine.line(), { state: 'ended', reason: 'moderator' })
    engine.close()
    await waitForText(page, 'No device is mirroring.')
  })

  await t.test('denies another', async t => {
    const engine = await ask('Stranger')
    await tap('Deny: Stranger')
    await waitForText(page, 'Stranger was turned away.')
    t.match(await engine.line(), { state: 'pending' })
    t.match(await engine.line(), { state: 'denied', reason: 'moderator' })
    engine.close()
  })

  await t.test('sees what others decide, and that a device has left', async () => {
    const engine = await ask('Bob’s laptop')
    await waitForText(page, 'Bob’s laptop')
    const [session] = await sessionsOf(service, 1)
    await service.fetch(`/sessions/${session?.id}/admit`, { method: 'POST' })
    await waitForText(page, 'No device is waiting.')
    engine.close()
    await waitForNoText(page, 'Bob’s laptop')
  })

  await t.test('is asked before one device takes the place of another', async t => {
    const engine = await ask('Cid')
    await waitForText(page, 'Cid')
    await page.setRequestInterception(true)
    const asked: string[] = []
    page.on('request', request => {
      asked.push(new URL(request.url()).search)
      if (!request.url().endsWith('replace=false')) return request.continue()
      // What an engine with one place says; the one at hand has many.
      const detail = '"Ann" is mirroring; this device shows one at a time.'
      return request.respond({ status: 409, contentType: 'application/problem+json', body: JSON.stringify({ detail }) })
    })
    await tap('Let in: Cid')
    await waitForText(page, '"Ann" is mirroring; this device shows one at a time.')
    await tap('Replace')
    await waitForText(page, 'No device is waiting.')
    t.strictSame(asked, ['?replace=false', ''])
    await page.setRequestInterception(false)
    engine.close()
    await waitForText(page, 'No device is mirroring.')
  })

  await t.test('sees hostile names as text, and presses big buttons', async t => {
    const name = `<img src=x onerror=alert(1)>\u202e\u0000${'M'.repeat(200)}`
    await ask(name, { model: '<script>alert(1)</script>' })
    await waitForText(page, '<img src=x onerror=alert(1)>')
    await waitForText(page, '<script>alert(1)</script>')
    t.equal(await page.$$eval('main img, main script', found => found.length), 0)
    t.ok(
      await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
      'nothing is wider than the page',
    )
    const heights = await page.$$eval('.decide button', found =>
      found.map(button => button.getBoundingClientRect().height),
    )
    t.equal(heights.length, 2)
    t.ok(
      heights.every(height => height >= 48),
      `buttons of ${heights} pixels`,
    )
  })

  await t.test('with a token that only reads, there is nothing to press', async t => {
    const { page } = await openTab(browser, `${service.url}/#key=${service.token(['moderator:r'])}`)
    await waitForText(page, 'Waiting to be let in')
    await waitForText(page, '<img')
    t.equal(await page.$$eval('.decide button', found => found.length), 0)
  })
  t.strictSame(offences, [])
})
