// The cost of events: delivery by streams and polls, and clients that do not read.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run, SERVER_CORE } from '../cores.ts'
import { limit, nchan } from '../subjects/native-peers.ts'
import { LARGE_HEAP, receiverd } from '../subjects/receiverd.ts'
import { DISK, NUMBER, OUT, type Subject } from '../subjects/subject.ts'
import { type Figures, MIB, type Run, SETTLE_MS, type Size } from './scenario.ts'
import { connected, paced, withLoad } from './with-load.ts'

const IN_FLIGHT = 64
/** Subjects that take several publishers at once. */
const BURST: readonly Subject[] = [receiverd, nchan, limit]
/** 1 KB of event, in a setting that takes as much. */
const FILLER = Array.from({ length: 7 }, (_, n) => `${n}${'x'.repeat(61)}.${'y'.repeat(61)}.example`)
const LARGE = { ntp: { servers: [`${NUMBER}.example`, ...FILLER] } }

export function fewStreams(subject: Subject, { few, share }: Size): Promise<Figures> {
  return withLoad(subject, { kind: 'stream' }, async session => {
    await session.load.connect(few)
    return paced(session, 300 * share, 20)
  })
}

export function manyStreams(subject: Subject, { many, share }: Size): Promise<Figures> {
  return withLoad<Figures>(subject, { kind: 'stream', env: LARGE_HEAP }, async session => {
    const figures = { ...(await connected(session, many)), ...(await paced(session, 40 * share, 200)) }
    if (!BURST.includes(subject)) return figures
    const burst = await session.load.publish(4 * IN_FLIGHT, { inFlight: IN_FLIGHT })
    return { ...figures, burstKs: burst.deliveries / burst.seconds / 1_000 }
  })
}

/** How figures grow: with the streams, and with the ring at 1,000 streams. */
export const growth: readonly Run[] = [
  ...[100, 1_000, 10_000, 19_000].map(streams => growthRun(`${streams} streams`, streams, 1_024)),
  ...[16, 256, 4_096].map(ring => growthRun(`ring of ${ring}`, 1_000, ring)),
]

/** The ring is full before the streams come; its bytes are bounded, too. */
function growthRun(name: string, streams: number, ring: number): Run {
  const env = { ...LARGE_HEAP, RECEIVERD_EVENTS: String(ring) }
  const measure = ({ share }: Size) =>
    withLoad(receiverd, { kind: 'stream', env }, async session => {
      await session.load.publish(Math.max(ring, 1_024), { inFlight: 8 })
      const opened = await connected(session, streams)
      const { cpuUs, lastP99Ms } = await paced(session, 40 * share, Math.max(20, streams / 50))
      return { ...opened, cpuUs, lastP99Ms, rssMib: session.server.memory('VmRSS') / MIB }
    })
  return { name, measure }
}

/** Clients that poll again at once. */
export function polls(subject: Subject, { few, share }: Size): Promise<Figures> {
  return withLoad(subject, { kind: 'poll' }, async session => {
    await session.load.connect(few)
    return paced(session, 60 * share, 100)
  })
}

/** Streams that are not read, and their effect on the others. */
export function stalls(subject: Subject, { share }: Size): Promise<Figures> {
  return withLoad(subject, { kind: 'stream', change: LARGE }, async session => {
    const { server, load } = session
    await load.connect(100)
    // The heap comes to its working size, so that any growth afterwards is due to the stalled clients.
    await load.publish(2_000 * share, { inFlight: 8 })
    const before = await paced(session, 500 * share, 10)
    await load.stall(1_000)
    await sleep(SETTLE_MS)
    const rss = server.memory('VmRSS')
    await load.publish(20_000 * share, { inFlight: 8 })
    const grownMib = (server.memory('VmRSS') - rss) / MIB
    const after = await paced(session, 500 * share, 10)
    return { grownMib, p99Before: before.p99Ms, p99After: after.p99Ms }
  })
}

/** One change after another, beside the same fsyncs on the same disk. */
export function patches(subject: Subject, { share }: Size): Promise<Figures> {
  return withLoad(subject, { kind: 'stream' }, async ({ server, load }) => {
    // Until the code is optimized, which would be all that a short run sees.
    await load.publish(300)
    const before = server.cpuNs()
    const { answerP50 } = await load.publish(300 * share)
    const patchCpuUs = (server.cpuNs() - before) / 1_000 / (300 * share)
    const fsyncsUs = await run(SERVER_CORE, [join(OUT, 'fsyncs'), DISK, String(300 * share)])
    return { patchMs: answerP50, fsyncsMs: Number(fsyncsUs) / 1_000, patchCpuUs }
  })
}
