import t from 'tap'
import { likelihood } from './crashes.ts'

t.test('how likely so many crashes are', async t => {
  const near = (seen: number, expected: number) => t.ok(Math.abs(seen / expected - 1) < 1e-9, `${seen}, ${expected}`)
  t.equal(likelihood(1, 0, 0.05), 0)
  near(likelihood(0, 10, 0.05), 1)
  near(likelihood(1, 10, 0.05), 1 - 0.95 ** 10)
  near(likelihood(3, 3, 0.05), 0.05 ** 3)
  near(likelihood(2, 4, 0.5), 11 / 16)
  near(likelihood(0, 1_000, 0.05), 1)
})
