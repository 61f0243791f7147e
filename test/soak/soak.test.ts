/**
 * One service for a while, with everything that happens to it in years. `make soak HOURS=8 SEED=2` takes as long as that, and
 * `make test` half a minute.
 */
import t from 'tap'
import { Random, SEED } from '../support/random.ts'
import { afterWarmUp, headLine, line, verdicts } from './report.ts'
import { startSoaked } from './service.ts'
import { Soak } from './soak.ts'
import { MIN_SAMPLES } from './trend.ts'

const HOURS = Number(process.env.HOURS || 0)
const SECONDS = HOURS > 0 ? HOURS * 3600 : 20
/** Enough samples for a trend, of a run of any length, and some hundred in a long one. */
const ACTIONS_A_LOOK = HOURS > 0 ? 400 : 40
const PAUSE_MS = HOURS > 0 ? 25 : 5
/** However slow the machine is. */
const MIN_LOOKS = 2 * MIN_SAMPLES

t.setTimeout((SECONDS + 600) * 1000)

t.test(`everything happens for ${SECONDS} s, seed ${SEED}, and nothing grows`, async t => {
  const service = await startSoaked(t)
  const soak = new Soak(service, new Random(SEED))
  await soak.start()
  t.comment(headLine())
  const end = performance.now() + SECONDS * 1000
  while (performance.now() < end || soak.samples.length < MIN_LOOKS) {
    await soak.act(ACTIONS_A_LOOK, PAUSE_MS)
    t.comment(line(await soak.look(), soak.samples.at(-2)))
  }

  for (const [name, times] of [...soak.done].sort()) t.comment(`${name}: ${times}`)
  t.comment(`clients that had to begin again: ${soak.resyncs}`)
  t.ok(soak.done.size > 12, `${soak.done.size} kinds of things happened`)
  t.ok(afterWarmUp(soak.samples).length >= MIN_SAMPLES, `${soak.samples.length} samples`)
  for (const { text, isGrowing } of verdicts(soak.samples)) t.notOk(isGrowing, text)
  service.hangUp()
  t.equal(await service.stop(), 0, 'it stops when it is told')
})
