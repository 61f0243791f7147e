import t from 'tap'
import { missingBrowser, openTab, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'
import { waitForText } from './steps.ts'

const SLOWER = 4
const FIRST_PAINT_MS = 300
const USABLE_MS = 1_000
/** The best of at most so many: other tests run at the same time. */
const MAX_RUNS = 20

t.test('on a processor that is slowed four times', { skip: missingBrowser('shell') }, async t => {
  const { link } = await startPageDevice(t)
  const browser = await startBrowser(t)
  const paints: number[] = []
  const uses: number[] = []
  const best = (times: readonly number[]) => Math.round(Math.min(...times))
  const isFast = () => best(paints) < FIRST_PAINT_MS && best(uses) < USABLE_MS
  for (let run = 0; run < MAX_RUNS && !isFast(); run++) {
    const { page } = await openTab(browser, link, async page => {
      await page.emulateCPUThrottling(SLOWER)
      await page.evaluateOnNewDocument(() => {
        const look = new MutationObserver(() => {
          if (!document.querySelector('main h2')) return
          performance.mark('usable')
          look.disconnect()
        })
        look.observe(document, { childList: true, subtree: true })
      })
    })
    await waitForText(page, 'Meeting Room 4')
    const [paint, usable] = await page.evaluate(() =>
      ['first-paint', 'usable'].map(name => performance.getEntriesByName(name)[0]?.startTime),
    )
    if (paint !== undefined) paints.push(paint)
    if (usable !== undefined) uses.push(usable)
    await page.browserContext().close()
  }
  t.comment(`first paint ${best(paints)} ms, usable ${best(uses)} ms`)
  t.ok(best(paints) < FIRST_PAINT_MS, `first paint ${best(paints)} ms`)
  t.ok(best(uses) < USABLE_MS, `usable ${best(uses)} ms`)
})
