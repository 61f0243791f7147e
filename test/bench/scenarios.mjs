// What is done to each subject, and what is read off it. A scenario returns its figures by name.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LOAD_CORE, Load, run, SERVER_CORE } from './process.mjs'
import { bare, betterSse, express, fastify, LARGE_HEAP, limit, NUMBER, nchan, OUT, receiverd } from './subjects.mjs'

/** How much of everything. The short form sees what has become much worse, not what is slow. */
export const FULL = { rounds: 3, few: 1_000, many: 10_000, share: 1, seconds: 4 }
export const SHORT = { rounds: 1, few: 1_000, many: 3_000, share: 0.2, seconds: 1 }

/** Milliseconds for a server to come to rest. */
const SETTLE_MS = 2_000
const IN_FLIGHT = 64
const CONNECTIONS = 32
const MORE_TOKENS_THAN_REMEMBERED = 1_000
const STARTS = 5
/** 1 KB of event, in a setting that takes as much. */
const FILLER = Array.from({ length: 7 }, (_, n) => `${n}${'x'.repeat(61)}.${'y'.repeat(61)}.example`)
const LARGE = { ntp: { servers: [`${NUMBER}.example`, ...FILLER] } }
const KIB = 1024

/** A scenario's subjects, taken in turn. */
export const scenarios = {
  sse: { subjects: [receiverd, nchan, limit, fastify, betterSse], run: fewStreams },
  many: { subjects: [receiverd, nchan, limit, fastify, betterSse], run: manyStreams },
  poll: { subjects: [receiverd, nchan, fastify], run: polls },
  stall: { subjects: [receiverd], run: stalls },
  get: { subjects: [receiverd, bare, fastify, express], run: (subject, size) => requests(subject, size, 1) },
  tokens: {
    subjects: [receiverd, bare],
    run: (subject, size) => requests(subject, size, MORE_TOKENS_THAN_REMEMBERED),
  },
  patch: { subjects: [receiverd], run: patches },
  start: { subjects: [receiverd, bare], run: starts },
  /** How figures grow: with the streams, and with the ring at 1,000 streams. Its bytes are bounded, too. */
  growth: {
    subjects: [
      ...[100, 1_000, 10_000, 19_000].map(streams => ({ name: `${streams} streams`, streams, ring: 1_024 })),
      ...[16, 256, 4_096].map(ring => ({ name: `ring of ${ring}`, streams: 1_000, ring })),
    ],
    run: growth,
    once: true,
  },
}

function fewStreams(subject, { few, share }) {
  return withLoad(subject, 'stream', async session => {
    await session.load.tell(`connect ${few}`)
    return paced(session, 300 * share, 20)
  })
}

function manyStreams(subject, { many, share }) {
  const measure = async session => {
    const { server, load } = session
    const before = server.memory('VmRSS')
    const { seconds } = await load.tell(`connect ${many}`)
    await sleep(SETTLE_MS)
    const kibAStream = (server.memory('VmRSS') - before) / many / KIB
    const figures = { connectS: seconds, kibAStream, ...(await paced(session, 40 * share, 200)) }
    if (![receiverd, nchan, limit].includes(subject)) return figures
    const burst = await load.tell(`publish ${4 * IN_FLIGHT} 0 ${IN_FLIGHT}`)
    return { ...figures, burstKs: burst.deliveries / burst.seconds / 1_000 }
  }
  return withLoad(subject, 'stream', measure, { env: LARGE_HEAP })
}

/** The figures of streams once the ring is full. */
function growth({ streams, ring }, { share }) {
  const measure = async session => {
    const { server, load } = session
    await load.tell(`publish ${Math.max(ring, 1_024)} 0 8`)
    const before = server.memory('VmRSS')
    const { seconds } = await load.tell(`connect ${streams}`)
    await sleep(SETTLE_MS)
    const kibAStream = (server.memory('VmRSS') - before) / streams / KIB
    const { cpuUs, lastP99Ms } = await paced(session, 40 * share, Math.max(20, streams / 50))
    return { connectS: seconds, kibAStream, cpuUs, lastP99Ms, rssMib: server.memory('VmRSS') / KIB / KIB }
  }
  return withLoad(receiverd, 'stream', measure, { env: { ...LARGE_HEAP, RECEIVERD_EVENTS: String(ring) } })
}

/** Clients that poll again at once. */
function polls(subject, { few, share }) {
  return withLoad(subject, 'poll', async session => {
    await session.load.tell(`connect ${few}`)
    return paced(session, 60 * share, 100)
  })
}

/** Streams that do not read, and what they do to those that do. */
function stalls(subject, { share }) {
  return withLoad(
    subject,
    'stream',
    async session => {
      const { server, load } = session
      await load.tell('connect 100')
      // The heap comes to its working size, so that what grows after it is the stalled clients'.
      await load.tell(`publish ${2_000 * share} 0 8`)
      const before = await paced(session, 500 * share, 10)
      await load.tell('stall 1000')
      await sleep(SETTLE_MS)
      const rss = server.memory('VmRSS')
      await load.tell(`publish ${20_000 * share} 0 8`)
      const grownMib = (server.memory('VmRSS') - rss) / KIB / KIB
      const after = await paced(session, 500 * share, 10)
      return { grownMib, p99Before: before.p99Ms, p99After: after.p99Ms }
    },
    { change: LARGE },
  )
}

async function requests(subject, { seconds }, tokens) {
  const server = await subject.start()
  try {
    const file = join(OUT, 'tokens')
    writeFileSync(file, `${Array.from({ length: tokens }, (_, n) => subject.token(`panel-${n}`)).join('\n')}\n`)
    const wrk = [
      'wrk',
      '-t1',
      `-c${CONNECTIONS}`,
      '-s',
      'test/bench/tokens.lua',
      `http://127.0.0.1:${server.port}/api/v1/system`,
    ]
    await run(LOAD_CORE, [...wrk, '-d1s'], { TOKENS: file })
    const cpu = server.cpuNs()
    const output = await run(LOAD_CORE, [...wrk, `-d${seconds}s`], { TOKENS: file })
    const cpuUs = (server.cpuNs() - cpu) / 1_000 / Number(/(\d+) requests in/.exec(output)?.[1])
    if (output.includes('Non-2xx')) throw new Error(`${subject.name} refuses: ${output}`)
    return { ks: Number(/Requests\/sec:\s+([\d.]+)/.exec(output)?.[1]) / 1_000, cpuUs }
  } finally {
    await server.stop()
  }
}

/** One after the other, against the same fsyncs on the same disk. */
function patches(subject, { share }) {
  return withLoad(subject, 'stream', async session => {
    const { load } = session
    // Until the code is compiled for speed, which a short run would see nothing but.
    await load.tell('publish 300 0 1')
    const before = session.server.cpuNs()
    const { answerP50 } = await load.tell(`publish ${300 * share} 0 1`)
    const cpuUs = (session.server.cpuNs() - before) / 1_000 / (300 * share)
    const folder = join(OUT, 'setting')
    mkdirSync(folder, { recursive: true })
    const alone = await run(SERVER_CORE, [join(OUT, 'fsyncs'), folder, String(300 * share)])
    return { patchMs: answerP50, fsyncsMs: Number(alone) / 1_000, patchCpuUs: cpuUs }
  })
}

async function starts(subject) {
  const times = []
  let memory = 0
  for (let n = 1; n <= STARTS; n++) {
    const server = await subject.start()
    times.push(server.startMs)
    if (n === STARTS) {
      await sleep(SETTLE_MS)
      memory = server.memory('RssAnon')
    }
    await server.stop()
  }
  return { startMs: median(times), idleMib: memory / KIB / KIB }
}

/** Publishes at an even pace, and tells what a delivery costs the server, and how long it takes. */
async function paced({ server, load }, count, intervalMs) {
  await load.tell(`publish ${Math.ceil(count / 3)} ${intervalMs * 1_000} 1`)
  const cpu = server.cpuNs()
  const told = await load.tell(`publish ${count} ${intervalMs * 1_000} 1`)
  return { cpuUs: (server.cpuNs() - cpu) / 1_000 / told.deliveries, p99Ms: told.p99, lastP99Ms: told.lastP99 }
}

async function withLoad(subject, kind, measure, { change, env } = {}) {
  const server = await subject.start(env)
  const files = ['subscribe', 'publish'].map(name => join(OUT, name))
  writeFileSync(files[0], subject.subscribe(kind))
  writeFileSync(files[1], subject.publish(change))
  const load = new Load([join(OUT, 'load'), String(server.port), kind, ...files])
  try {
    await sleep(SETTLE_MS)
    return await measure({ server, load })
  } finally {
    load.stop()
    await server.stop()
  }
}

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
