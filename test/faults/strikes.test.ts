/**
 * Faults everywhere at once: whatever the storage and the commands of a device do, the invariants hold. `STRIKES=100000
 * SEED=2` goes on for as many.
 */
import t from 'tap'
import { SEED } from '../support/random.ts'
import { Strikes } from './strikes.ts'

/** Strikes depend on what happens at the same time, so a seed does not repeat a run: they are no part of `make test`. */
const STRIKES = Number(process.env.STRIKES || 0)

t.setTimeout(120_000 + STRIKES * 2_000)

t.test(`${STRIKES} strikes, seed ${SEED}`, { skip: STRIKES === 0 && 'run make strike-test' }, async t => {
  const strikes = new Strikes(t, SEED)
  await strikes.begin()
  let shown = 0
  let steps = 0
  while (strikes.striker.total < STRIKES) {
    await strikes.step()
    steps++
    if (strikes.striker.total - shown < STRIKES / 20) continue
    shown = strikes.striker.total
    t.comment(`${shown} strikes in ${steps} steps`)
  }
  for (const [what, times] of [...strikes.done].sort()) t.comment(`${what}: ${times}`)
  for (const [what, times] of [...strikes.striker.struck].sort()) t.comment(`struck ${what}: ${times}`)
  t.ok(strikes.striker.struck.size > 15, `${strikes.striker.struck.size} kinds of strikes`)
})
