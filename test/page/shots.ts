/** Pictures of every view: `make page-shots`. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { startUpdateDevice } from '../support/update-device.ts'
import { openTab, startBrowser } from './browser.ts'
import { page as built, livelySystem, showSessions, startPageDevice } from './device.ts'
import { goTo } from './steps.ts'
import { CLOCK, UPDATE_VIEWS } from './update-views.ts'
import { VIEWS } from './views.ts'

const OUT = join(REPOSITORY, 'build/out/page-shots')
const WIDTHS = [360, 768, 1440]
const PHONE = { width: 375, height: 667, hasTouch: true }
// Puppeteer would load the page anew if only one of them had a touch screen.
const DESK = { width: 1440, height: 900, hasTouch: true }
const ONLY = process.env.ONLY?.split(',')

t.test('every view, as wide as a phone, a tablet and a desk', async t => {
  mkdirSync(OUT, { recursive: true })
  const device = await startPageDevice(t, livelySystem(t))
  await showSessions(device)
  const browser = await startBrowser(t)
  for (const { name, link, come, isAtTop } of VIEWS.filter(({ name }) => ONLY?.includes(name) ?? true))
    for (const scheme of ['light', 'dark'])
      for (const width of WIDTHS) {
        const { page, offences } = await openTab(browser, link?.(device) ?? device.link, async page => {
          await page.setViewport({ width, height: width === 360 ? 740 : 900, hasTouch: width === 360 })
          await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
        })
        await come(page, device)
        await page.screenshot({ path: `${OUT}/${name}-${width}-${scheme}.png`, fullPage: !isAtTop })
        t.strictSame(offences, [], `${name} ${width} ${scheme}`)
        await page.browserContext().close()
      }
})

t.test('every state of an update, on a small phone and on a desk', async t => {
  mkdirSync(OUT, { recursive: true })
  const browser = await startBrowser(t)
  for (const { name, prepare, come } of UPDATE_VIEWS.filter(({ name }) => ONLY?.includes(`update-${name}`) ?? true)) {
    const device = await startUpdateDevice(t, prepare, built, CLOCK)
    const { page } = await openTab(browser, device.link, page => page.setViewport(PHONE))
    await goTo(page, 'Update')
    await come(page, device)
    for (const scheme of ['light', 'dark'])
      for (const viewport of [PHONE, DESK]) {
        await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
        await page.setViewport(viewport)
        await page.screenshot({ path: `${OUT}/update-${name}-${viewport.width}-${scheme}.png` })
      }
    await page.browserContext().close()
    device.rauc.release()
  }
})

t.test('the picture of README.md', async t => {
  mkdirSync(OUT, { recursive: true })
  const device = await startPageDevice(t, livelySystem(t))
  const { page, offences } = await openTab(await startBrowser(t), device.link, page =>
    page.setViewport({ width: 1200, height: 760 }),
  )
  await goTo(page, 'Settings')
  await page.screenshot({ path: `${OUT}/README.png` })
  t.strictSame(offences, [])
})
