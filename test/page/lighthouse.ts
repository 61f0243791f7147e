/** Its scores are of times: `make bench` runs it, while nothing else takes the processor. */
import lighthouse from 'lighthouse'
import t from 'tap'
import { missingBrowser, startBrowser } from './browser.ts'
import { startPageDevice } from './device.ts'

/** The least that each category may score, of 1. */
const LEAST = { accessibility: 1, 'best-practices': 1, performance: 0.95 } as const
/** Each but the first at the speed that the processor had in the one before. */
const MAX_RUNS = 4
/**
 * Lighthouse judges a processor four times as slow as this one, which stands for a phone's if this one reaches that figure in its
 * benchmark. What reaches half of that is slowed down half as much
 * (https://github.com/GoogleChrome/lighthouse/blob/main/docs/throttling.md#calibrating-the-cpu-slowdown).
 */
const SLOWDOWN = 4
const BENCHMARK = 1_000
/** Lighthouse waits until the network is quiet. It never is: the page follows the device's events. */
const LOAD_MS = 10_000

t.test('Lighthouse, as on a phone', { skip: missingBrowser('shell') }, async t => {
  const { link } = await startPageDevice(t)
  const browser = await startBrowser(t)
  const port = Number(new URL(browser.wsEndpoint()).port)
  let cpuSlowdownMultiplier = SLOWDOWN
  for (let run = 1; ; run++) {
    const result = await lighthouse(link, {
      port,
      logLevel: 'silent',
      onlyCategories: Object.keys(LEAST),
      maxWaitForLoad: LOAD_MS,
      throttling: { cpuSlowdownMultiplier },
    })
    const { categories = {}, audits = {}, environment } = result?.lhr ?? {}
    const benchmark = environment?.benchmarkIndex ?? BENCHMARK
    const scores = Object.entries(LEAST).map(([name, least]) => ({ name, least, score: categories[name]?.score ?? 0 }))
    const isSlow = scores.some(({ name, least, score }) => name === 'performance' && score < least)
    t.comment(`benchmark ${benchmark}, slowed down by ${cpuSlowdownMultiplier.toFixed(1)}`)
    cpuSlowdownMultiplier = Math.min(SLOWDOWN, Math.max(1, (SLOWDOWN * benchmark) / BENCHMARK))
    if (isSlow && run < MAX_RUNS) continue
    const failed = Object.values(audits).filter(({ score }) => score !== null && score < 1)
    for (const { id, title, displayValue = '' } of failed) t.comment(`${id}: ${title} ${displayValue}`)
    for (const { name, least, score } of scores) t.ok(score >= least, `${name} ${score}, at least ${least}`)
    return
  }
})
