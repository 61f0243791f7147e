// What is to be reached, each as a ratio of figures of one run.
/**
 * `figure` of ours is held against the same of `peer`, or against `to`, another figure of our own. `reached` is how near we
 * came where that is not the target: the short form measures regressions from there.
 */
export const targets = [
  { what: 'SSE, 1,000: CPU a delivery', scenario: 'sse', figure: 'cpuUs', peer: 'nchan', atMost: 1.0 },
  { what: 'SSE, 1,000: CPU a delivery', scenario: 'sse', figure: 'cpuUs', peer: 'C limit', atMost: 1.35 },
  {
    what: 'SSE, 1,000: p99 of the last client',
    scenario: 'sse',
    figure: 'lastP99Ms',
    peer: 'nchan',
    atMost: 1.0,
    reached: 1.5,
  },
  { what: 'SSE, 10,000: CPU a delivery', scenario: 'many', figure: 'cpuUs', peer: 'nchan', atMost: 0.75 },
  { what: 'SSE, 10,000: CPU a delivery', scenario: 'many', figure: 'cpuUs', peer: 'C limit', atMost: 1.35 },
  {
    what: 'SSE, 10,000: deliveries a second, 64 PATCHes in flight',
    scenario: 'many',
    figure: 'burstKs',
    peer: 'nchan',
    atLeast: 10,
  },
  { what: 'SSE, 10,000: connected', scenario: 'many', figure: 'connectS', peer: 'nchan', atMost: 1.0 },
  { what: 'SSE, 10,000: RSS a stream, KiB', scenario: 'many', figure: 'kibAStream', atMost: 9 },
  { what: 'long poll, 1,000: CPU a delivery', scenario: 'poll', figure: 'cpuUs', peer: 'Fastify', atMost: 0.5 },
  {
    what: 'long poll, 1,000: CPU a delivery',
    scenario: 'poll',
    figure: 'cpuUs',
    peer: 'nchan',
    atMost: 1.0,
    reached: 2,
  },
  { what: '1,000 stalled: RSS grows, MiB', scenario: 'stall', figure: 'grownMib', atMost: 16 },
  {
    what: '1,000 stalled: p99 of 100 that read, to before',
    scenario: 'stall',
    figure: 'p99After',
    to: 'p99Before',
    atMost: 1.5,
  },
  { what: 'GET: requests a second', scenario: 'get', figure: 'ks', peer: 'bare node:http', atLeast: 0.97 },
  { what: 'GET: requests a second', scenario: 'get', figure: 'ks', peer: 'Fastify', atLeast: 2.5 },
  { what: 'GET: requests a second', scenario: 'get', figure: 'ks', peer: 'Express', atLeast: 10 },
  {
    what: 'GET, 1,000 tokens: requests a second',
    scenario: 'tokens',
    figure: 'ks',
    peer: 'bare node:http',
    atLeast: 0.6,
  },
  {
    what: 'PATCH: time, to its fsyncs alone',
    scenario: 'patch',
    figure: 'patchMs',
    to: 'fsyncsMs',
    atMost: 1.3,
    reached: 2,
  },
  {
    what: 'start to first answer',
    scenario: 'start',
    figure: 'startMs',
    peer: 'bare node:http',
    atMost: 1.3,
    reached: 2.2,
  },
  {
    what: 'idle: anonymous memory',
    scenario: 'start',
    figure: 'idleMib',
    peer: 'bare node:http',
    atMost: 1.35,
    reached: 1.5,
  },
]
