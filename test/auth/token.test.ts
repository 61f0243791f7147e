import t from 'tap'
import { parseDuration } from '../../src/auth/token.ts'

t.test('a duration is a number of one unit', async t => {
  for (const [text, ms] of [
    ['1s', 1_000],
    ['90s', 90_000],
    ['15m', 900_000],
    ['8h', 28_800_000],
    ['30d', 2_592_000_000],
    ['0s', 0],
    ['999999999s', 999_999_999_000],
    ['1000000000s', undefined],
    ['8', undefined],
    ['h', undefined],
    ['8w', undefined],
    ['8H', undefined],
    ['8 h', undefined],
    ['1.5h', undefined],
    ['-8h', undefined],
    ['in 8h', undefined],
    ['8h30m', undefined],
    ['8hours', undefined],
    ['', undefined],
  ] as const)
    t.equal(parseDuration(text), ms, JSON.stringify(text))
})
