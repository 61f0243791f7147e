import { test } from 'tap'
import type { UpdateWindow } from '../../hal/settings/update.ts'
import { isSet, nextOpening } from '../../src/update/window.ts'

const DAILY = { days: [], from: '02:00', to: '04:00' }
const NIGHT = { days: [], from: '23:30', to: '01:00' }

interface Case {
  readonly what: string
  readonly window: UpdateWindow
  readonly zone?: string
  readonly now: string
  /** Undefined if there is none. */
  readonly opens?: string
  readonly closes?: string
}

const CASES: readonly Case[] = [
  {
    what: 'no window',
    window: { days: ['mon'], from: '', to: '' },
    now: '2026-11-25T00:00Z',
  },
  {
    what: 'later today',
    window: DAILY,
    now: '2026-11-25T00:00Z',
    opens: '2026-11-25T02:00Z',
    closes: '2026-11-25T04:00Z',
  },
  {
    what: 'open from its first millisecond',
    window: DAILY,
    now: '2026-11-25T02:00Z',
    opens: '2026-11-25T02:00Z',
    closes: '2026-11-25T04:00Z',
  },
  {
    what: 'open to its last minute',
    window: DAILY,
    now: '2026-11-25T03:59:59Z',
    opens: '2026-11-25T02:00Z',
    closes: '2026-11-25T04:00Z',
  },
  {
    what: 'closed at its end',
    window: DAILY,
    now: '2026-11-25T04:00Z',
    opens: '2026-11-26T02:00Z',
    closes: '2026-11-26T04:00Z',
  },
  {
    what: 'past midnight, before it',
    window: NIGHT,
    now: '2026-11-25T23:45Z',
    opens: '2026-11-25T23:30Z',
    closes: '2026-11-26T01:00Z',
  },
  {
    what: 'past midnight, after it',
    window: NIGHT,
    now: '2026-11-26T00:59Z',
    opens: '2026-11-25T23:30Z',
    closes: '2026-11-26T01:00Z',
  },
  {
    what: 'past midnight, at its end',
    window: NIGHT,
    now: '2026-11-26T01:00Z',
    opens: '2026-11-26T23:30Z',
    closes: '2026-11-27T01:00Z',
  },
  {
    what: 'it belongs to the day on which it begins: Thursday morning of a Wednesday',
    window: { ...NIGHT, days: ['wed'] },
    now: '2026-11-26T00:30Z',
    opens: '2026-11-25T23:30Z',
    closes: '2026-11-26T01:00Z',
  },
  {
    what: 'it belongs to the day on which it begins: Wednesday morning is Tuesday’s',
    window: { ...NIGHT, days: ['wed'] },
    now: '2026-11-25T00:30Z',
    opens: '2026-11-25T23:30Z',
    closes: '2026-11-26T01:00Z',
  },
  {
    what: 'once a week, just missed',
    window: { ...DAILY, days: ['wed'] },
    now: '2026-11-25T04:00Z',
    opens: '2026-12-02T02:00Z',
    closes: '2026-12-02T04:00Z',
  },
  {
    what: 'the nearest of several days, in any order',
    window: { ...DAILY, days: ['sun', 'fri', 'tue'] },
    now: '2026-11-25T12:00Z',
    opens: '2026-11-27T02:00Z',
    closes: '2026-11-27T04:00Z',
  },
  {
    what: 'over the end of a year',
    window: { ...NIGHT, days: ['thu'] },
    now: '2027-01-01T00:10Z',
    opens: '2026-12-31T23:30Z',
    closes: '2027-01-01T01:00Z',
  },
  {
    what: 'local time east of UTC: the day is the local one',
    window: { ...DAILY, days: ['thu'] },
    zone: 'Asia/Tokyo',
    now: '2026-11-25T16:00Z',
    opens: '2026-11-25T17:00Z',
    closes: '2026-11-25T19:00Z',
  },
  {
    what: 'local time west of UTC',
    window: { ...NIGHT, days: ['wed'] },
    zone: 'America/Los_Angeles',
    now: '2026-11-26T08:30Z',
    opens: '2026-11-26T07:30Z',
    closes: '2026-11-26T09:00Z',
  },
  {
    what: 'an offset of quarters of an hour',
    window: DAILY,
    zone: 'Asia/Kathmandu',
    now: '2026-11-25T00:00Z',
    opens: '2026-11-25T20:15Z',
    closes: '2026-11-25T22:15Z',
  },
  {
    what: 'a zone that the runtime does not know is UTC',
    window: DAILY,
    zone: 'Mars/Olympus',
    now: '2026-11-25T00:00Z',
    opens: '2026-11-25T02:00Z',
    closes: '2026-11-25T04:00Z',
  },
  // Europe/Brussels: 29 March 2026, 02:00 becomes 03:00; 25 October 2026, 03:00 becomes 02:00.
  {
    what: 'spring: a beginning that is skipped',
    window: DAILY,
    zone: 'Europe/Brussels',
    now: '2026-03-28T12:00Z',
    opens: '2026-03-29T01:00Z',
    closes: '2026-03-29T02:00Z',
  },
  {
    what: 'spring: a window that is skipped as a whole',
    window: { days: [], from: '02:15', to: '02:45' },
    zone: 'Europe/Brussels',
    now: '2026-03-28T12:00Z',
    opens: '2026-03-29T01:15Z',
    closes: '2026-03-29T01:45Z',
  },
  {
    what: 'spring: a window of which nothing would be left, on the only day of the week',
    window: { days: ['sun'], from: '02:00', to: '03:00' },
    zone: 'Europe/Brussels',
    now: '2026-03-28T12:00Z',
    opens: '2026-03-29T01:00Z',
    closes: '2026-03-29T02:00Z',
  },
  {
    what: 'spring: an end that is skipped',
    window: { days: [], from: '01:30', to: '02:30' },
    zone: 'Europe/Brussels',
    now: '2026-03-28T12:00Z',
    opens: '2026-03-29T00:30Z',
    closes: '2026-03-29T01:30Z',
  },
  {
    what: 'spring: over midnight and the change',
    window: { days: ['sat'], from: '23:00', to: '04:00' },
    zone: 'Europe/Brussels',
    now: '2026-03-29T00:30Z',
    opens: '2026-03-28T22:00Z',
    closes: '2026-03-29T02:00Z',
  },
  {
    what: 'autumn: a beginning that comes twice is the first',
    window: DAILY,
    zone: 'Europe/Brussels',
    now: '2026-10-24T12:00Z',
    opens: '2026-10-25T00:00Z',
    closes: '2026-10-25T03:00Z',
  },
  {
    what: 'autumn: it does not open twice',
    window: { days: [], from: '02:15', to: '02:45' },
    zone: 'Europe/Brussels',
    now: '2026-10-25T01:20Z',
    opens: '2026-10-26T01:15Z',
    closes: '2026-10-26T01:45Z',
  },
  {
    what: 'autumn: an end that comes twice is the first',
    window: { days: [], from: '01:00', to: '02:30' },
    zone: 'Europe/Brussels',
    now: '2026-10-25T00:00Z',
    opens: '2026-10-24T23:00Z',
    closes: '2026-10-25T00:30Z',
  },
  {
    what: 'a change of half an hour (Lord Howe, 5 April 2026: 02:00 becomes 01:30)',
    window: { days: [], from: '01:45', to: '02:15' },
    zone: 'Australia/Lord_Howe',
    now: '2026-04-04T12:00Z',
    opens: '2026-04-04T14:45Z',
    closes: '2026-04-04T15:45Z',
  },
  {
    what: 'a change at midnight (Beirut, 29 March 2026: 00:00 becomes 01:00)',
    window: { days: ['sun'], from: '00:00', to: '01:00' },
    zone: 'Asia/Beirut',
    now: '2026-03-28T12:00Z',
    opens: '2026-03-28T22:00Z',
    closes: '2026-03-28T23:00Z',
  },
]

for (const { what, window, zone = 'UTC', now, opens, closes } of CASES)
  test(what, async t => {
    const expected = opens && closes ? { opensAt: Date.parse(opens), closesAt: Date.parse(closes) } : undefined
    t.strictSame(nextOpening(window, zone, Date.parse(now)), expected)
    t.equal(isSet(window), opens !== undefined)
  })

test('in the course of a year it is always open or opens within a day, and never earlier than before', async t => {
  for (const zone of ['Europe/Brussels', 'America/New_York', 'Africa/Casablanca', 'Pacific/Apia']) {
    const wrong: string[] = []
    let last = 0
    for (let now = Date.UTC(2026, 0, 1); now < Date.UTC(2027, 0, 1); now += 47 * 60_000) {
      const { opensAt, closesAt } = nextOpening(NIGHT, zone, now) ?? { opensAt: 0, closesAt: 0 }
      const isGood = opensAt >= last && opensAt < closesAt && now < closesAt && opensAt - now <= 25 * 3_600_000
      if (!isGood) wrong.push(new Date(now).toISOString())
      last = opensAt
    }
    t.strictSame(wrong, [], zone)
  }
})
