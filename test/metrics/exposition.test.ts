import t from 'tap'
import { Counts } from '../../src/metrics/counts.ts'
import { expose, type Family } from '../../src/metrics/exposition.ts'
import { BOUNDS, Histogram } from '../../src/metrics/histogram.ts'

const duration = new Histogram()
for (const seconds of [0.00005, 0.0001, 0.0002, 1, 1.5, 60]) duration.observe(seconds)

const FAMILIES: readonly Family[] = [
  { name: 'x_build', type: 'info', help: 'What.', samples: [{ labels: [['version', '1']], value: 1 }] },
  { name: 'x_seen', type: 'counter', help: 'Seen.', samples: [{ value: 3 }] },
  { name: 'x_open', type: 'gauge', help: 'Open.', samples: [{ labels: [['at', 'a"b\\c\nd']], value: 0.5 }] },
  { name: 'x_took_seconds', type: 'histogram', help: 'Took.', samples: [{ labels: [['by', 'y']], value: duration }] },
  { name: 'x_none', type: 'counter', help: 'None.', samples: [] },
]

const BUCKETS = ['0.0001', '0.0005', '0.001', '0.005', '0.01', '0.05', '0.1', '0.5', '1.0', '5.0', '+Inf']
const HISTOGRAM = `# HELP x_took_seconds Took.
# TYPE x_took_seconds histogram
${BUCKETS.map((le, at) => `x_took_seconds_bucket{by="y",le="${le}"} ${[2, 3, 3, 3, 3, 3, 3, 3, 4, 5, 6][at]}\n`).join('')}\
x_took_seconds_sum{by="y"} 62.50035
x_took_seconds_count{by="y"} 6
`

t.test('the format of Prometheus', async t => {
  t.equal(
    expose(FAMILIES, 'prometheus'),
    `# HELP x_build_info What.
# TYPE x_build_info gauge
x_build_info{version="1"} 1
# HELP x_seen_total Seen.
# TYPE x_seen_total counter
x_seen_total 3
# HELP x_open Open.
# TYPE x_open gauge
x_open{at="a\\"b\\\\c\\nd"} 0.5
${HISTOGRAM}`,
  )
})

t.test('OpenMetrics', async t => {
  t.equal(
    expose(FAMILIES, 'openmetrics'),
    `# HELP x_build What.
# TYPE x_build info
x_build_info{version="1"} 1
# HELP x_seen Seen.
# TYPE x_seen counter
x_seen_total 3
# HELP x_open Open.
# TYPE x_open gauge
x_open{at="a\\"b\\\\c\\nd"} 0.5
${HISTOGRAM}# EOF
`,
  )
})

t.test('a histogram has its size from the start', async t => {
  const histogram = new Histogram()
  t.ok(histogram.isEmpty)
  t.equal(histogram.counts.length, BOUNDS.length + 1)
  t.same(
    [...BOUNDS].sort((a, b) => a - b),
    BOUNDS,
  )
})

t.test('counts are listed when they have happened', async t => {
  const counts = new Counts(['a', 'b'])
  t.same(counts.samples, [])
  counts.add(['1', '2'])
  counts.add(['1', '3'])
  counts.add(['1', '3'])
  const sample = (b: string, value: number) => ({
    labels: [
      ['a', '1'],
      ['b', b],
    ],
    value,
  })
  t.same(counts.samples, [sample('2', 1), sample('3', 2)])
})
