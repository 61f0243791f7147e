import lighthouse from 'lighthouse'
import t from 'tap'
import { missingBrowser, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'

/** The least that each category may score, of 1. */
const LEAST = { accessibility: 1, 'best-practices': 1, performance: 0.95 } as const
/** The best of at most so many: other tests run at the same time, and take the processor that this is about. */
const MAX_RUNS = 4
/** Lighthouse waits until the network is quiet. It never is: the page follows the device's events. */
const LOAD_MS = 10_000

t.setTimeout(300_000)

t.test('Lighthouse, as on a phone', { skip: missingBrowser('shell') }, async t => {
  const { link } = await startPageDevice(t)
  const browser = await startBrowser(t)
  const port = Number(new URL(browser.wsEndpoint()).port)
  for (let run = 1; ; run++) {
    const result = await lighthouse(link, {
      port,
      logLevel: 'silent',
      onlyCategories: Object.keys(LEAST),
      maxWaitForLoad: LOAD_MS,
    })
    const { categories = {}, audits = {} } = result?.lhr ?? {}
    const scores = Object.entries(LEAST).map(([name, least]) => ({ name, least, score: categories[name]?.score ?? 0 }))
    const isSlow = scores.some(({ name, least, score }) => name === 'performance' && score < least)
    if (isSlow && run < MAX_RUNS) continue
    const failed = Object.values(audits).filter(({ score }) => score !== null && score < 1)
    for (const { id, title, displayValue = '' } of failed) t.comment(`${id}: ${title} ${displayValue}`)
    for (const { name, least, score } of scores) t.ok(score >= least, `${name} ${score}, at least ${least}`)
    return
  }
})
