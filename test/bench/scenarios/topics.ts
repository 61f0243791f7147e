// Cost of a second topic: as many streams on two topics as on one.
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openSession } from '../../../src/sessions/engine-client.ts'
import type { Server } from '../server.ts'
import { receiverd } from '../subjects/receiverd.ts'
import { OUT } from '../subjects/subject.ts'
import { type Figures, KIB, SETTLE_MS, type Size } from './scenario.ts'
import { connected, paced, withLoad } from './with-load.ts'

const STREAMS = 1_024
/** Longer than sessions wait with an event for the next change. */
const APART_MS = 80
const ENGINES = join(OUT, 'engines')
const DEVICE = { protocol: 'bench', name: 'bench', model: '', deviceId: '', address: '' }

/** The same number of deliveries by each. */
export async function topics(_: unknown, { share }: Size): Promise<Figures> {
  const events = 100 * share
  const one = await withLoad(receiverd, { kind: 'stream' }, async session => {
    const { kibAStream } = await connected(session, STREAMS)
    const { cpuUs } = await paced(session, events, APART_MS)
    return { cpuUs, kibAStream }
  })
  const env = { RECEIVERD_ENGINES: ENGINES }
  const two = await withLoad(receiverd, { kind: 'stream', env }, async session => {
    const before = session.server.memory('VmRSS')
    await session.load.connect(STREAMS / 2)
    const watchers = await watchSessions(session.server, STREAMS / 2)
    await sleep(SETTLE_MS)
    const kibAStream = (session.server.memory('VmRSS') - before) / STREAMS / KIB
    const { cpuUs } = await paced(session, events, APART_MS)
    const sessionsCpuUs = await sessionsPaced(session.server, watchers, events)
    // Both deliver as often. The publisher, a PATCH or an engine, costs differently, and is in it.
    return { cpuUs: (cpuUs + sessionsCpuUs) / 2, kibAStream }
  })
  return { ...two, oneCpuUs: one.cpuUs, oneKibAStream: one.kibAStream }
}

/** A stream of sessions that counts its events. */
interface Watcher {
  readonly socket: Socket
  events: number
}

async function watchSessions(server: Server, count: number): Promise<readonly Watcher[]> {
  const head = `${receiverd.subscribe('stream', '/api/v1/sessions/events')}\r\n`
  const opening = Array.from({ length: count }, async () => {
    const watcher: Watcher = { socket: connect(server.port, '127.0.0.1'), events: 0 }
    watcher.socket.write(head)
    await new Promise<void>((resolve, reject) => {
      watcher.socket.on('error', reject)
      watcher.socket.setEncoding('latin1').on('data', (text: string) => {
        resolve()
        watcher.events += text.split('event: sessions.changed').length - 1
      })
    })
    return watcher
  })
  return Promise.all(opening)
}

/** Devices come and go: the cost of delivering an event of theirs. */
async function sessionsPaced(server: Server, watchers: readonly Watcher[], events: number): Promise<number> {
  const publish = async (count: number) => {
    for (let n = 0; n < count; n += 2) {
      const link = await openSession(ENGINES, DEVICE)
      await sleep(APART_MS)
      link.close()
      await sleep(APART_MS)
    }
  }
  await publish(Math.ceil(events / 3))
  const seen = () => watchers.reduce((sum, watcher) => sum + watcher.events, 0)
  const [before, cpuNs] = [seen(), server.cpuNs()]
  await publish(events)
  for (let waits = 0; seen() - before < watchers.length * events && waits < 300; waits++) await sleep(100)
  const deliveries = seen() - before
  if (deliveries < watchers.length * events) throw new Error(`${deliveries} deliveries of ${events} events`)
  return (server.cpuNs() - cpuNs) / 1_000 / deliveries
}
