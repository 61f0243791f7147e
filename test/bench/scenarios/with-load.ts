import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '../../../src/json.ts'
import { Load } from '../load.ts'
import type { Server } from '../server.ts'
import { type Kind, OUT, type Subject } from '../subjects/subject.ts'
import { KIB, SETTLE_MS } from './scenario.ts'

export interface Traffic {
  /** How the clients follow events. */
  readonly kind: Kind
  /** The events that they follow, by default those of the configuration. */
  readonly path?: string
  /** The change, by default a new device name. */
  readonly change?: JsonObject
  /** Added to the server's environment. */
  readonly env?: NodeJS.ProcessEnv
}

export interface Session {
  readonly server: Server
  readonly load: Load
}

/** Measures a server that has come to rest, with clients that have not connected yet. */
export async function withLoad<T>(
  subject: Subject,
  { kind, path, change, env }: Traffic,
  measure: (session: Session) => Promise<T>,
): Promise<T> {
  const server = await subject.start(env)
  const subscribe = join(OUT, 'subscribe')
  const publish = join(OUT, 'publish')
  writeFileSync(subscribe, subject.subscribe(kind, path))
  writeFileSync(publish, subject.publish(change))
  const load = new Load([join(OUT, 'load'), String(server.port), kind, subscribe, publish])
  try {
    await sleep(SETTLE_MS)
    return await measure({ server, load })
  } finally {
    load.stop()
    await server.stop()
  }
}

/** Publishes at an even pace: the server's cost of a delivery, and its time to any and to the last client. */
export async function paced({ server, load }: Session, count: number, intervalMs: number) {
  await load.publish(Math.ceil(count / 3), { intervalMs })
  const before = server.cpuNs()
  const { deliveries, p99, lastP99 } = await load.publish(count, { intervalMs })
  return { cpuUs: (server.cpuNs() - before) / 1_000 / deliveries, p99Ms: p99, lastP99Ms: lastP99 }
}

/** Connects streams: seconds until all are open, and KiB that each takes. */
export async function connected({ server, load }: Session, streams: number) {
  const before = server.memory('VmRSS')
  const connectS = await load.connect(streams)
  await sleep(SETTLE_MS)
  return { connectS, kibAStream: (server.memory('VmRSS') - before) / streams / KIB }
}
