import { setTimeout as sleep } from 'node:timers/promises'
import type { HTTPRequest } from 'puppeteer-core'
import t from 'tap'
import { ManualClock } from '../support/clock.ts'
import { eventually } from '../support/eventually.ts'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { sessionsOf, startPageDevice } from './device.ts'
import { control, goTo, signOutDuring, tap, waitForNoText, waitForText } from './steps.ts'

type Conflict = ReturnType<typeof conflict>

function conflict(problem: object) {
  return { status: 409, contentType: 'application/problem+json', body: JSON.stringify(problem) }
}

t.test('a moderator with a phone', { skip: missingBrowser('shell') }, async t => {
  const { service, ask } = await startPageDevice(t)
  const browser = await startBrowser(t)
  const moderator = service.token(['moderator:rw'])
  const { page, offences } = await openTab(browser, `${service.url}/#key=${moderator}`, page =>
    page.setViewport({ width: 360, height: 740, hasTouch: true, isMobile: true }),
  )
  const press = (button: string) => tap(page, button)
  /** @returns a function that ends it. */
  const intercept = async (answer: (request: HTTPRequest) => Promise<void>) => {
    await page.setRequestInterception(true)
    page.on('request', answer)
    return async () => {
      page.off('request', answer)
      await page.setRequestInterception(false)
    }
  }
  await waitForText(page, 'No device is waiting.')

  await t.test('lets a device in, and ends it', async t => {
    const engine = await ask('Ann’s iPhone')
    await waitForText(page, 'Ann’s iPhone')
    t.match(await page.title(), /^\(1\) /)
    await press('Let in: Ann’s iPhone')
    await waitForText(page, 'No device is waiting.')
    t.match(await engine.line(), { state: 'pending' })
    t.match(await engine.line(), { state: 'active' })
    await press('End: Ann’s iPhone')
    t.match(await engine.line(), { state: 'ended', reason: 'moderator' })
    engine.close()
    await waitForText(page, 'No device is mirroring.')
  })

  await t.test('a message covers nothing that can be pressed', async t => {
    const engine = await ask('Ann’s iPhone')
    await waitForText(page, 'Ann’s iPhone\u2069 is waiting to be let in.')
    const under = await page.$eval('.toast', toast => {
      const { left, right, top, bottom } = toast.getBoundingClientRect()
      const rows = Array.from({ length: Math.ceil((bottom - top) / 8) }, (_, row) => top + row * 8)
      const columns = Array.from({ length: Math.ceil((right - left) / 8) }, (_, column) => left + column * 8)
      const found = rows.flatMap(y => columns.map(x => document.elementFromPoint(x, y)?.closest('a, button')))
      return found.flatMap(element => element?.textContent ?? [])
    })
    t.strictSame(under, [], 'a tap on it goes through')
    engine.close()
    await waitForText(page, 'No device is waiting.')
  })

  await t.test('denies another', async t => {
    const engine = await ask('Stranger')
    await press('Deny: Stranger')
    await waitForText(page, '\u2068Stranger\u2069 was turned away.')
    t.match(await engine.line(), { state: 'pending' })
    t.match(await engine.line(), { state: 'denied', reason: 'moderator' })
    engine.close()
  })

  await t.test('does not end twice what is still shown because the page hears no news', async t => {
    const engine = await ask('Ann’s iPhone')
    await press('Let in: Ann’s iPhone')
    await page.waitForSelector('[aria-label^="End: "]')
    const asked: string[] = []
    page.on('request', request => request.method() === 'DELETE' && asked.push(request.url()))
    await page.evaluate(() => dispatchEvent(new Event('pagehide')))
    const button = await page.$('[aria-label^="End: "]')
    await press('End: Ann’s iPhone')
    while ((await engine.line())?.state !== 'ended');
    engine.close()
    await waitForText(page, 'The session of \u2068Ann’s iPhone\u2069 was ended.')
    await button?.tap()
    await page.evaluate(() => dispatchEvent(new Event('pageshow')))
    await waitForText(page, 'No device is mirroring.')
    t.equal(asked.length, 1)
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

  await t.test('is asked before one device takes the place of another, and that one alone', async t => {
    const engine = await ask('Cid')
    await waitForText(page, 'Cid')
    // An engine with one place says this; the one at hand has many.
    const inTheWay = (name: string, session: string) =>
      conflict({ detail: `"${name}" is mirroring; this device shows one at a time.`, session })
    const answers: Readonly<Record<string, Conflict>> = {
      '?replace=false': inTheWay('Ann', 'a'),
      // Meanwhile, Ann has left and Bob has come.
      '?replace=a': inTheWay('Bob', 'b'),
    }
    const asked: string[] = []
    const stop = await intercept(request => {
      const { search } = new URL(request.url())
      if (search !== '') asked.push(search)
      const answer = answers[search]
      return answer ? request.respond(answer) : request.continue({ url: request.url().replace('=b', '=true') })
    })
    await press('Let in: Cid')
    await waitForText(page, '"Ann" is mirroring; this device shows one at a time.')
    await press('Replace')
    await waitForText(page, '"Bob" is mirroring; this device shows one at a time.')
    await press('Replace')
    await waitForText(page, 'Let in.')
    await waitForText(page, 'No device is waiting.')
    t.strictSame(asked, ['?replace=false', '?replace=a', '?replace=b'])
    await stop()
    engine.close()
    await waitForText(page, 'No device is mirroring.')
  })

  await t.test('is asked nothing after signing out', async t => {
    const engine = await ask('Cid')
    const { page } = await openTab(browser, `${service.url}/#key=${moderator}`)
    const answer = conflict({ detail: '"Ann" is mirroring; this device shows one at a time.', session: 'a' })
    const admit = () => tap(page, 'Let in: Cid')
    t.strictSame(await signOutDuring(page, '/admit', admit, request => request.respond(answer)), [])
    engine.close()
  })

  await t.test('is told of any other refusal, and not asked', async () => {
    const engine = await ask('Dan')
    await waitForText(page, 'Dan')
    const detail = 'Another moderator has just turned it away.'
    const stop = await intercept(request => request.respond(conflict({ detail })))
    await press('Let in: Dan')
    await waitForText(page, detail)
    await stop()
    await press('Deny: Dan')
    engine.close()
    await waitForNoText(page, 'Dan')
  })

  await t.test('is not told that it was somebody else if only the answer was lost', async () => {
    const engine = await ask('Eve')
    await waitForText(page, 'Eve')
    const [session] = await sessionsOf(service, 1)
    const stop = await intercept(request => (request.method() === 'POST' ? request.abort() : request.continue()))
    await press('Let in: Eve')
    await page.waitForSelector('.sessions .error:not([hidden])')
    await service.fetch(`/sessions/${session?.id}/admit`, { method: 'POST' })
    await waitForText(page, 'Let in.')
    await stop()
    engine.close()
    await waitForText(page, 'No device is mirroring.')
  })

  await t.test('a finger that comes too late does not hit the next device', async t => {
    for (const lateMs of [0, 29, 250]) {
      const ann = await ask('Ann')
      await waitForText(page, 'Ann')
      const bob = await ask('Bob')
      await waitForText(page, 'Bob')
      const button = await page.waitForSelector('::-p-aria([name="Let in: Ann"][role="button"])')
      const box = await button?.boundingBox()
      if (!box) throw new Error('the button is not shown')
      ann.close()
      await waitForText(page, 'Withdrew, or was turned away by somebody else.')
      await sleep(lateMs)
      await page.touchscreen.tap(box.x + box.width / 2, box.y + box.height / 2)
      await waitForNoText(page, 'Ann')
      const [session] = await sessionsOf(service, 1)
      t.match(session, { name: 'Bob', state: 'pending' }, `${lateMs} ms after the list has changed`)
      bob.close()
      await waitForText(page, 'No device is waiting.')
    }
  })

  await t.test('nor one that was on its way when rows have moved, or have come', async t => {
    const [ann, bob, cid] = [await ask('Ann'), await ask('Bob'), await ask('Cid')]
    for (const name of ['Ann', 'Bob', 'Cid']) await waitForText(page, name)
    /** The hit of a finger at the place of a button, at the moment with so many rows. Watches when it returns. */
    const watch = async (name: string, rows: number) => {
      const watched = await page.evaluateHandle(
        (name, rows) => ({
          hit: new Promise<string>(resolve => {
            const placeOf = () => document.querySelector(`[aria-label="Let in: ${name}"]`)?.getBoundingClientRect()
            const before = placeOf()
            new MutationObserver((_, observer) => {
              if (document.querySelectorAll('.pending').length !== rows) return
              observer.disconnect()
              const { x = 0, y = 0, width = 0, height = 0 } = before ?? placeOf() ?? {}
              const button = document.elementFromPoint(x + width / 2, y + height / 2)?.closest('button')
              resolve(button?.getAttribute('aria-label') ?? 'nothing')
            }).observe(document.body, { childList: true, subtree: true })
          }),
        }),
        name,
        rows,
      )
      return () => watched.evaluate(({ hit }) => hit)
    }
    const whenGone = await watch('Bob', 2)
    ann.close()
    t.equal(await whenGone(), 'nothing', 'Cid is where Bob was')
    const whenCome = await watch('Dan', 3)
    const dan = await ask('Dan')
    t.equal(await whenCome(), 'nothing', 'what was there before Dan?')
    await press('Let in: Cid')
    const [, active] = await eventually(async () => {
      const sessions = await sessionsOf(service, 3)
      return sessions[1]?.state === 'active' && sessions
    })
    t.equal(active?.name, 'Cid')
    for (const engine of [bob, cid, dan]) engine.close()
    await waitForText(page, 'No device is mirroring.')
    await waitForText(page, 'No device is waiting.')
  })

  await t.test('sees how long a device still waits, and that nobody answered in time', async () => {
    const engine = await ask('Eve', { model: 'iPhone15,2', protocol: 'airplay' })
    await waitForText(page, 'AirPlay')
    await waitForText(page, 'iPhone')
    await waitForText(page, 'denied in 11')
    const restore = await page.evaluateHandle(() => {
      const { now } = Date
      Date.now = () => now() + 120_000
      return () => {
        Date.now = now
      }
    })
    await waitForText(page, 'denied in 0 s')
    engine.close()
    await waitForText(page, 'Nobody decided in time.')
    await waitForText(page, 'No device is waiting.')
    await restore.evaluate(restore => restore())
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

  await t.test('a moderator who may see the settings reads what phones see, and whether anybody is asked', async t => {
    const { page } = await openTab(browser, `${service.url}/#key=${service.token(['moderator:rw', 'admin:rw'])}`)
    await waitForText(page, 'Phones find this receiver as ')
    await waitForNoText(page, 'Everybody may mirror')
    await service.patch({
      deviceName: 'Room 5',
      airplay: { enabled: true, name: '' },
      moderation: { approval: 'none' },
    })
    await waitForText(page, 'Phones find this receiver as Room 5.')
    await waitForText(page, 'Everybody may mirror. To decide yourself')
    await service.patch({ airplay: { name: 'By the door' }, moderation: { approval: 'moderator' } })
    await waitForText(page, 'Phones find this receiver as By the door.')
    await waitForNoText(page, 'Everybody may mirror')
    await goTo(page, 'Settings')
    const name = await control(page, 'AirPlay', 'Name')
    t.equal(await name.evaluate(input => input.placeholder), 'Room 5', 'the name that an empty one stands for')
    await page.locator('header .summary').click()
    await waitForText(page, 'By the door.')
  })

  await t.test('sees a new name of the device after the next reconnection', async t => {
    await service.patch({ deviceName: 'By the window' })
    await page.evaluate(() => ['pagehide', 'pageshow'].map(name => dispatchEvent(new Event(name))))
    await waitForText(page, 'By the window')
    t.match(await page.title(), /^By the window –/)
  })

  await t.test('reads the time by the clock of the device', async () => {
    const engine = await ask(' \u200b\u2060')
    const { page: late } = await openTab(
      browser,
      `${service.url}/#key=${moderator}`,
      page =>
        page.evaluateOnNewDocument(() => {
          const { now } = Date
          Date.now = () => now() + 3_600_000
        }) as unknown as Promise<void>,
    )
    await waitForText(late, 'denied in 1')
    await waitForText(late, 'Unnamed device')
    engine.close()
    await waitForText(late, 'Withdrew, or was turned away by somebody else.')
  })

  await t.test('also after the clock of the device has jumped ahead', async () => {
    const { page: behind } = await openTab(browser, `${service.url}/#key=${moderator}`)
    await waitForText(behind, 'Connected')
    await behind.evaluate(() => {
      const { now } = Date
      Date.now = () => now() - 172_800_000
    })
    const engine = await ask('Zoe')
    await waitForText(behind, 'denied in 11')
    engine.close()
  })

  await t.test('the page says in time that a token expires', async () => {
    const now = Math.floor(Date.now() / 1000)
    const open = (exp: number) =>
      openTab(browser, `${service.url}/#key=${service.token(['moderator:rw'], { iat: now, exp })}`)
    const { page: later } = await open(now + 3_600)
    await waitForText(later, 'No device is')
    await waitForNoText(later, 'Your token expires')
    const { page: soon } = await open(now + 300)
    await waitForText(soon, 'Your token expires at ')
  })
  t.strictSame(offences, [])
})

t.test('a decision that is refused only for now is not taken for made', { skip: missingBrowser('shell') }, async t => {
  const clock = new ManualClock()
  const { service, ask } = await startPageDevice(t, { clock })
  const token = service.token(['moderator:rw'], { nbf: Math.floor(Date.now() / 1000) - 60 })
  const { page } = await openTab(await startBrowser(t), `${service.url}/#key=${token}`)
  const engine = await ask('Ann’s iPhone')
  await waitForText(page, 'Ann’s iPhone')
  clock.step(-3_600_000)
  await tap(page, 'Deny: Ann’s iPhone')
  await waitForText(page, 'The token is not valid yet.')
  clock.step(3_600_000)
  engine.close()
  await waitForText(page, 'Withdrew, or was turned away by somebody else.')
})
