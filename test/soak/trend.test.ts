import t from 'tap'
import { Random } from '../support/random.ts'
import { trendOf } from './trend.ts'

const N = 40
const TIMES = Array.from({ length: N }, (_, n) => n)
const random = new Random(1)
const noise = () => random.next() - 0.5

/** The sample at each time, and the least and the most that it has grown by. */
const SERIES: Readonly<
  Record<string, [value: (n: number) => number, growth: readonly [number, number], atLeast: number]>
> = {
  'a level': [() => 7, [0, 0], 0],
  'noise around a level': [() => 100 + noise(), [-0.3, 0.3], -1],
  'a slope': [n => 3 * n, [117, 117], 117],
  'a slope in noise': [n => n / N + noise(), [0.5, 1.5], 0.2],
  'a slope with outliers': [n => (n % 5 === 0 ? 1_000 * noise() : 3 * n), [100, 130], 80],
  'one outlier at the end': [n => (n === N - 1 ? 1_000 : 7), [0, 0], 0],
  'what falls': [n => -n, [-39, -39], -39],
}

for (const [name, [value, [least, most], atLeast]] of Object.entries(SERIES))
  t.test(name, async t => {
    const trend = trendOf(TIMES, TIMES.map(value))
    t.ok(trend.growth >= least - 1e-9 && trend.growth <= most + 1e-9, `${trend.growth}`)
    t.ok(trend.atLeast >= atLeast - 1e-9 && trend.atLeast <= trend.growth + 1e-9, `${trend.atLeast}`)
  })

t.test('noise alone is hardly ever growth', async t => {
  let grown = 0
  for (let run = 0; run < 1_000; run++) if (trendOf(TIMES, TIMES.map(noise)).atLeast > 0) grown++
  t.ok(grown <= 5, `${grown} of 1,000`)
})

t.test('too few samples', async t => {
  t.throws(() => trendOf([1, 2], [1, 2]), RangeError)
})
