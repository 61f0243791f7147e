/** Every view, judged by axe-core. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'puppeteer-core'
import t from 'tap'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { livelySystem, showSessions, startPageDevice } from './device.ts'
import { click, control, fill, goTo } from './steps.ts'
import { VIEWS } from './views.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
}

t.test('axe-core finds nothing', { skip: missingBrowser('shell') }, async t => {
  const device = await startPageDevice(t, livelySystem(t))
  await showSessions(device)
  const browser = await startBrowser(t)
  for (const { name, link, come } of VIEWS) {
    const { page, offences } = await openTab(browser, link?.(device) ?? device.link)
    await come(page, device)
    // After the page's own requests: the policy of the page does not hold for the debugger.
    await page.evaluate(AXE)
    for (const scheme of ['light', 'dark']) {
      await page.emulateMediaFeatures([
        { name: 'prefers-color-scheme', value: scheme },
        { name: 'prefers-reduced-motion', value: 'reduce' },
      ])
      const { violations, passes } = await judged(page)
      const found = violations.flatMap(({ id, nodes }) =>
        nodes.map(node => `${id}: ${node.html}\n${node.failureSummary}`),
      )
      t.strictSame(found, [], `${name}, ${scheme}`)
      t.ok(passes.length > 10, 'it has looked')
    }
    t.strictSame(
      offences.filter(offence => !offence.includes('ERR_FAILED')),
      [],
      name,
    )
    await page.browserContext().close()
  }
})

function judged(
  page: Page,
): Promise<{ readonly violations: readonly Violation[]; readonly passes: readonly unknown[] }> {
  return page.evaluate(() => (globalThis as unknown as { axe: { run(): ReturnType<typeof judged> } }).axe.run())
}

t.test('high contrast: states and the current view can be told', { skip: missingBrowser('shell') }, async t => {
  const { link } = await startPageDevice(t)
  const { page } = await openTab(await startBrowser(t), link)
  const session = await page.createCDPSession()
  await session.send('Emulation.setEmulatedMedia', { features: [{ name: 'forced-colors', value: 'active' }] })
  await goTo(page, 'Settings')
  const picture = async (selector: string) => (await page.waitForSelector(selector))?.screenshot({ encoding: 'base64' })
  const toggle = await control(page, 'Network time', 'Enabled')
  const pictureOf = () => toggle.screenshot({ encoding: 'base64' })
  const off = await pictureOf()
  await toggle.click()
  t.not(await pictureOf(), off, 'a switch')
  const here = await picture('nav a[href="#settings"]')
  await goTo(page, 'Status')
  t.not(await picture('nav a[href="#settings"]'), here, 'the current view')
  const hasDot = () =>
    page.$eval('.state', state => {
      const { backgroundColor } = getComputedStyle(state, '::before')
      return backgroundColor !== getComputedStyle(document.querySelector('header') as HTMLElement).backgroundColor
    })
  t.ok(await hasDot())
  await click(page, 'Maintenance', 'Reboot…')
  const colours = () =>
    page.$$eval('dialog button', buttons => buttons.map(button => getComputedStyle(button).color).slice(-2))
  const [cancel, reboot] = await colours()
  await page.$eval('dialog .primary', button => {
    ;(button as HTMLButtonElement).disabled = true
  })
  t.notOk([cancel, reboot].includes((await colours())[1]), 'a button that cannot be pressed')
})

t.test('zoomed to 200 %, nothing that the keyboard reaches is covered', { skip: missingBrowser('shell') }, async t => {
  const device = await startPageDevice(t, livelySystem(t))
  await showSessions(device)
  const { page } = await openTab(await startBrowser(t), device.link, page =>
    page.setViewport({ width: 640, height: 400, deviceScaleFactor: 2 }),
  )
  const reached: string[] = []
  for (const view of ['Sessions', 'Settings', 'Status', 'Update', 'Access']) {
    await goTo(page, view)
    const covered: string[] = []
    for (let step = 0; step < 60; step++) {
      await page.keyboard.press('Tab')
      const name = await page.evaluate(() => {
        const here = document.activeElement
        if (!here?.closest('main')) return undefined
        const nav = document.querySelector('body > nav')?.getBoundingClientRect().top ?? 0
        const isCovered = here.getBoundingClientRect().bottom > nav
        return isCovered ? here.getAttribute('aria-label') || here.textContent || here.id : ''
      })
      if (name === undefined) break
      if (!reached.includes(view)) reached.push(view)
      if (name !== '') covered.push(name)
    }
    t.strictSame(covered, [], view)
  }
  t.strictSame(reached, ['Settings', 'Status', 'Update', 'Access'])
})

t.test('a button that goes leaves the focus at its heading', { skip: missingBrowser('shell') }, async t => {
  const device = await startPageDevice(t)
  await showSessions(device)
  const { page } = await openTab(await startBrowser(t), device.link)
  const press = async (name: string) => {
    await page.focus(`::-p-aria([name="${name}"][role="button"])`)
    await page.keyboard.press('Enter')
  }
  const focused = (text: string) =>
    page.waitForFunction(text => document.activeElement?.textContent === text, { polling: 50 }, text)
  for (const name of ['Let in: Pixel 9', 'Deny: Meeting room laptop']) {
    await press(name)
    await focused('Waiting to be let in')
  }
  await goTo(page, 'Settings')
  for (const label of ['Device name', 'Host name']) {
    await fill(page, 'General', label, 'by-keyboard')
    await press('Save: General')
    await focused('General')
  }
})

t.test('the keyboard alone', { skip: missingBrowser('shell') }, async t => {
  const { link, service } = await startPageDevice(t)
  const { page } = await openTab(await startBrowser(t), link)
  await page.waitForSelector('main h2')
  const focused = () =>
    page.evaluate(() => document.activeElement?.textContent || document.activeElement?.getAttribute('aria-label'))
  const order: unknown[] = []
  for (let step = 0; step < 5; step++) {
    await page.keyboard.press('Tab')
    order.push(await focused())
  }
  t.strictSame(order, ['Skip to the content', 'Nobody is mirroring', 'Sign out', 'Sessions', 'Settings'])
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => document.querySelector('main h2')?.textContent === 'Settings')
  t.equal(await page.evaluate(() => document.activeElement?.tagName), 'MAIN', 'the focus goes to what was opened')
  for (let step = 0; step < 40; step++) {
    await page.keyboard.press('Tab')
    const label = await page.evaluate(
      () => (document.activeElement as HTMLInputElement | null)?.labels?.[0]?.textContent,
    )
    if (label === 'Device name') break
  }
  await page.keyboard.down('Control')
  await page.keyboard.press('a')
  await page.keyboard.up('Control')
  await page.keyboard.type('By keyboard')
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => document.querySelector('h1')?.textContent === 'By keyboard')
  t.equal((await service.system()).value.deviceName, 'By keyboard')
})
