/**
 * A thumb on a phone, in two browsers, while others manage the device and things go wrong. `make walk STEPS=2000 SEED=2` takes as
 * many steps as that in each browser; `make test` a few.
 */
import t from 'tap'
import { SEED } from '../support/random.ts'
import { missingBrowser } from './browser.ts'
import { Walk } from './walk/walk.ts'

const STEPS = Number(process.env.STEPS || 40)
const ONLY = process.env.BROWSER
/** Most steps take half a second; some wait for a connection. */
const STEP_MS = 5_000

t.setTimeout(300_000 + 2 * STEPS * STEP_MS)

for (const browser of ['shell', 'firefox'] as const)
  t.test(
    `${STEPS} steps, seed ${SEED}: ${browser}`,
    { skip: ONLY ? ONLY !== browser : missingBrowser(browser) },
    async t => {
      const began = performance.now()
      const walk = await Walk.start(t, browser, SEED)
      await walk.go(STEPS)
      const seconds = Math.round((performance.now() - began) / 1000)
      t.ok(walk.asked > 0, `${STEPS} steps in ${seconds} s, of which ${walk.asked} have asked the device for something`)
    },
  )
