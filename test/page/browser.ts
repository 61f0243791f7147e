/** Debian's browsers, and pages in them that watch for things that must never happen. */
import { type Browser, type BrowserContext, launch, type Page } from 'puppeteer-core'
import type { Test } from 'tap'
import { DEADLINE_MS } from '../support/eventually.ts'
import { needs } from '../support/needs.ts'

/** A tab in the background draws no frames, so nothing may wait for one. */
export const POLL = { polling: 50 }
/** The screen of a small phone. */
export const PHONE = { width: 375, height: 667, isMobile: true, hasTouch: true }

/** `shell` is Chromium that cannot have windows. It takes half the processor time, but does not know that a tab is hidden. */
const PATHS = {
  shell: '/usr/bin/chromium-headless-shell',
  chrome: '/usr/bin/chromium',
  firefox: '/usr/bin/firefox-esr',
} as const
export type BrowserName = keyof typeof PATHS

/** Why tests in a browser cannot run; false if they can. */
export function missingBrowser(name: BrowserName): string | false {
  return needs(PATHS[name])
}

/** Starts a browser, which ends with the test. */
export async function startBrowser(
  t: Test,
  name: BrowserName = 'shell',
  more: readonly string[] = [],
): Promise<Browser> {
  // The sandbox of Chromium refuses to run as root. What draws attention to a change for seconds is not drawn anew 60 times a
  // second, because that costs more than the test of the change.
  const chromium = ['--no-sandbox', '--disable-dev-shm-usage', '--lang=en-GB', '--force-prefers-reduced-motion']
  const args = name === 'firefox' ? [] : [...chromium, ...more]
  const browser = await launch({
    browser: name === 'firefox' ? name : 'chrome',
    executablePath: PATHS[name],
    headless: name === 'shell' ? 'shell' : true,
    args,
    timeout: 2 * DEADLINE_MS,
  })
  t.teardown(() => browser.close())
  return browser
}

/** A tab, and the offences of its page. */
export interface Tab {
  readonly page: Page
  /** Violations of the Content-Security-Policy, exceptions, and requests to another host. */
  readonly offences: readonly string[]
}

/**
 * Opens a tab: of the given context, or of one of its own, in which nothing is stored yet.
 * @param prepare Called before it loads anything.
 */
export async function openTab(
  browser: Browser | BrowserContext,
  url: string,
  prepare: (page: Page) => Promise<void> = async () => undefined,
): Promise<Tab> {
  const context = 'createBrowserContext' in browser ? await browser.createBrowserContext() : browser
  const page = await context.newPage()
  page.setDefaultTimeout(DEADLINE_MS)
  const offences: string[] = []
  const { host } = new URL(url)
  page.on('pageerror', error => offences.push(`exception: ${error}`))
  page.on('console', message => {
    // A browser itself reports each answer from 400 on, and headers it ignores without TLS.
    const isUsual = /^Failed to load resource|^The Cross-Origin-Opener-Policy header/.test(message.text())
    if (message.type() === 'error' && !isUsual) offences.push(`console: ${message.text()}`)
  })
  page.on('request', request => {
    const to = new URL(request.url())
    if (to.protocol !== 'data:' && to.protocol !== 'blob:' && to.host !== host) offences.push(`request: ${to.href}`)
    if (/key/i.test(to.search)) offences.push(`a credential in a URL: ${to.pathname}`)
  })
  await prepare(page)
  await load(page, url)
  return { page, offences }
}

/**
 * Chromium breaks off what it loads, scripts included, when the host's network changes, as the tests that make machines
 * do. It may say so only after it has reported the page as loaded.
 */
async function load(page: Page, url: string): Promise<void> {
  const brokenOff = () =>
    new Promise<false>(resolve => {
      page.on('requestfailed', request => {
        // Firefox knows neither this error nor the request.
        if (request.failure()?.errorText !== 'net::ERR_NETWORK_CHANGED') return
        if (/^(document|script|stylesheet)$/.test(request.resourceType())) resolve(false)
      })
    })
  const shown = async () => {
    await page.goto(url)
    const isWhole = () => {
      const styles = [...document.querySelectorAll<HTMLLinkElement>('link[rel=stylesheet]')]
      return document.querySelector('main') !== null && styles.every(({ sheet }) => sheet !== null)
    }
    await page.waitForFunction(isWhole, POLL)
    return true
  }
  while (!(await Promise.race([brokenOff(), shown().catch(unlessBrokenOff)]))) {
    // Going to the address with a fragment where the page is already would load nothing.
    await page.goto('about:blank')
  }
}

function unlessBrokenOff(error: Error): false {
  if (!error.message.includes('net::ERR_NETWORK_CHANGED')) throw error
  return false
}

/** Puts a function between the page and `fetch`. It may use nothing from outside. */
export async function intercept(
  page: Page,
  answer: (path: string, real: () => Promise<Response>) => Promise<Response>,
): Promise<void> {
  await page.evaluateOnNewDocument(`{
    const real = fetch
    const answer = ${answer}
    globalThis.fetch = (path, options) => answer(path, () => real(path, options))
  }`)
}
