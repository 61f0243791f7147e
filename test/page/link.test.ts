/** The link between the page and the device fails without a word, as Wi-Fi and proxies do. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { HTTPRequest, Page } from 'puppeteer-core'
import t, { type Test } from 'tap'
import { Client } from '../../src/page/client.ts'
import { noAnswer } from '../../src/page/texts.ts'
import { eventually } from '../support/eventually.ts'
import type { ServiceOptions } from '../support/service.ts'
import { missingBrowser, openTab, POLL, startBrowser, type Tab } from './browser.ts'
import { livelySystem, startPageDevice } from './device.ts'
import { navigation, tap, waitForNoText, waitForText } from './steps.ts'

/** The page's timers are shorter by this factor. The heartbeats come each second. */
const FASTER = 4

/** A way to a server on which connections can go silent. Nobody closes them. */
async function startLink(t: Test, port: number) {
  const sockets = new Set<Socket>()
  let isDown = false
  const goSilent = () => {
    for (const socket of sockets) socket.unpipe().pause()
  }
  const server = createServer(near => {
    const far = connect(port, '127.0.0.1')
    for (const socket of [near, far]) sockets.add(socket.on('error', () => undefined))
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
    if (isDown) return
    near.pipe(far)
    far.pipe(near)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Connections that are open carry nothing more; new ones do. */
    goSilent,
    down: () => {
      isDown = true
      goSilent()
    },
    /** New connections carry something again. */
    up: () => {
      isDown = false
    },
  }
}

t.test('a link that fails without a word', { skip: missingBrowser('shell') }, async t => {
  const browser = await startBrowser(t)
  const start = async (t: Test, heartbeatS = 1, options: ServiceOptions = {}) => {
    const { service, ask } = await startPageDevice(t, {
      ...options,
      env: { RECEIVERD_HEARTBEAT_S: String(heartbeatS) },
    })
    const link = await startLink(t, Number(new URL(service.url).port))
    const tab: Tab = await openTab(browser, `${link.url}/#key=${service.key}`, async page => {
      await page.evaluateOnNewDocument(factor => {
        const { setTimeout } = window
        window.setTimeout = ((act: () => void, ms = 0) =>
          setTimeout(act, ms >= 10_000 ? ms / factor : ms)) as typeof window.setTimeout
      }, FASTER)
    })
    await waitForText(tab.page, 'No device is waiting.')
    return { service, ask, link, ...tab }
  }

  await t.test('streams that are swallowed are opened anew, and go on where they were', async t => {
    const { ask, link, page } = await start(t)
    link.goSilent()
    const engine = await ask('Ann’s iPhone')
    await waitForText(page, 'Ann’s iPhone')
    await waitForNoText(page, 'Not connected')
    engine.close()
  })

  await t.test('a proxy that answers, and swallows what follows, is not a connection', async t => {
    const { link, page } = await start(t)
    await page.setRequestInterception(true)
    page.on('request', request =>
      request.headers().accept === 'text/event-stream'
        ? request.respond({ status: 200, contentType: 'text/event-stream', body: '' })
        : request.continue(),
    )
    link.goSilent()
    await waitForText(page, 'Not connected')
  })

  await t.test('silence between heartbeats that are rare is no loss', async t => {
    const { page, ask } = await start(t, 3_600)
    const seen = await watchState(page)
    for (const _ of [1, 2]) await page.waitForRequest(request => request.url().endsWith('/sessions/events'))
    const engine = await ask('Ann’s iPhone')
    await waitForText(page, 'Ann’s iPhone')
    t.notMatch(await seen(), 'Not connected')
    engine.close()
  })

  await t.test('choices that are not answered say nothing of the events', async t => {
    const { page } = await start(t, 1, livelySystem(t))
    const held: HTTPRequest[] = []
    await page.setRequestInterception(true)
    page.on('request', request => {
      if (request.url().endsWith('/system/choices')) held.push(request)
      else request.continue()
    })
    await page.reload()
    await page.waitForFunction(() => document.querySelector('.state')?.textContent === 'Connected')
    const seen = await watchState(page)
    t.ok(held.length > 0)
    for (const request of held) await request.abort()
    await page.evaluate(() => new Promise(requestAnimationFrame))
    t.notMatch(await seen(), 'Not connected')
  })

  await t.test('a tab that is shown again is connected only once it hears something', async t => {
    const { ask, link, page } = await start(t)
    await ask('Ann’s iPhone')
    await waitForText(page, 'Ann’s iPhone')
    t.match(await page.title(), /^\(1\) /)
    await look(page, 'hidden')
    t.notMatch(await page.title(), /^\(/, 'nobody would know how old the number is')
    link.down()
    await look(page, 'visible')
    await waitForText(page, 'Connecting…')
    t.notMatch(await page.title(), /^\(/)
    await waitForText(page, 'Not connected')
    link.up()
    await page.waitForFunction(() => document.title.startsWith('(1) '), POLL)
    await waitForText(page, 'Connected')
  })

  await t.test('the update is offered once the device can tell of it', async t => {
    const { link } = await startPageDevice(t, livelySystem(t))
    let isRefused = true
    const { page } = await openTab(browser, link, async page => {
      await page.evaluateOnNewDocument(factor => {
        const { setInterval } = window
        window.setInterval = ((act: () => void, ms = 0) =>
          setInterval(act, ms >= 10_000 ? ms / factor : ms)) as typeof window.setInterval
      }, FASTER)
      await page.setRequestInterception(true)
      page.on('request', request => {
        if (isRefused && request.url().endsWith('/update')) request.respond({ status: 409 })
        else request.continue()
      })
    })
    await waitForText(page, 'No device is waiting.')
    t.notOk((await navigation(page)).includes('Update'))
    await page.evaluate(() => {
      location.hash = '#update'
    })
    isRefused = false
    await waitForText(page, 'Other system')
    t.ok((await navigation(page)).includes('Update'))
  })

  await t.test('a page that was opened in the background is older than its first connection', async t => {
    const { link } = await startPageDevice(t, livelySystem(t))
    const opened = async (visibility: 'hidden' | 'visible') => {
      const { page } = await openTab(browser, link, async page => {
        await page.evaluateOnNewDocument(visibility => {
          Object.defineProperty(document, 'visibilityState', { value: visibility, configurable: true })
        }, visibility)
      })
      await waitForText(page, 'Meeting Room 4')
      let asked = 0
      page.on('request', request => {
        if (request.url().endsWith('/update')) asked++
      })
      await look(page, 'visible')
      await waitForText(page, 'Connected')
      return () => asked
    }
    const asked = await opened('hidden')
    await eventually(() => asked() > 0)
    t.equal((await opened('visible'))(), 0)
  })

  await t.test('a decision that gets no answer: the button says so, and the page is not connected', async t => {
    const { ask, link, page } = await start(t)
    const engine = await ask('Bob’s iPad')
    await waitForText(page, 'Bob’s iPad')
    link.down()
    await tap(page, 'Let in: Bob’s iPad')
    await waitForText(page, 'Letting in…')
    const began = performance.now()
    await waitForText(page, 'Not connected')
    await waitForText(page, 'The device does not answer.')
    t.ok(performance.now() - began < 40_000, 'given up after 8 s, and not after a minute')
    link.up()
    await waitForNoText(page, 'Not connected')
    await tap(page, 'Let in: Bob’s iPad')
    await waitForText(page, 'No device is waiting.')
    engine.close()
  })
})

t.test('a file says nothing of the connection: it may be gone, or refused before it is read', async t => {
  const { fetch } = globalThis
  t.teardown(() => Object.assign(globalThis, { fetch }))
  globalThis.fetch = () => Promise.reject(new TypeError('Failed to fetch'))
  const client = new Client('key')
  let unanswered = 0
  client.unanswered = () => unanswered++
  await t.rejects(client.send('PUT', '/update/bundle', { file: new Blob(['x']) }), { message: noAnswer })
  t.equal(unanswered, 0)
  await t.rejects(client.send('PATCH', '/system', { body: {} }), { message: noAnswer })
  t.equal(unanswered, 1)
})

/** Makes the page take itself for hidden, or for shown again. */
async function look(page: Page, visibility: 'hidden' | 'visible'): Promise<void> {
  await page.evaluate(visibility => {
    Object.defineProperty(document, 'visibilityState', { value: visibility, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  }, visibility)
}

/** Records the state that the page shows. Returns a function that reads the record. */
async function watchState(page: Page): Promise<() => Promise<string>> {
  await page.evaluate(() => {
    const state = document.querySelector('.state')
    const seen: string[] = []
    new MutationObserver(() => seen.push(state?.textContent ?? '')).observe(state as Node, { childList: true })
    Object.assign(globalThis, { seen })
  })
  return () => page.evaluate(() => (globalThis as unknown as { seen: readonly string[] }).seen.join())
}
