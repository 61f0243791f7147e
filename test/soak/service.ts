/** The service under soak: the bundle, as a process that is measured from inside and whose clock is moved. */
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { Receiver } from '../interop/support.ts'
import { deviceRoot } from '../support/device.ts'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'

const PROBE = fileURLToPath(new URL('probe.cjs', import.meta.url))
/** The ring is small, to be full before a trend can be seen, and heartbeats come often. */
const ENV = { RECEIVERD_EVENTS: '16', RECEIVERD_HEARTBEAT_S: '1', RECEIVERD_STALL_S: '5' }

/** The process's report on itself, after a collection of garbage. */
export interface Measured {
  /** Bytes. */
  readonly rss: number
  /** Without the compiled code. */
  readonly heap: number
  readonly code: number
  readonly external: number
  /** Of libuv, as `process.getActiveResourcesInfo()` lists them. */
  readonly handles: number
  readonly descriptors: number
  /** Of inotify(7). */
  readonly watches: number
  readonly timers: number
  /** Of the processor since the start. */
  readonly cpuMs: number
  /** Milliseconds since the last sample: median, 99th percentile and maximum. */
  readonly loop: readonly [p50: number, p99: number, max: number]
}

export class SoakedService extends Receiver {
  readonly engines: string
  readonly #probe: string
  /** Requests so far. */
  requests = 0
  /** Whether the service takes the time for known. */
  isClockSet = true
  /** The clock is being stepped: whether the service knows the time is unknown until it has said so. */
  isStepping = false
  #offsetMs = 0
  #agent = new Agent({ keepAlive: true, maxSockets: 16 })

  constructor(root: string, folder: string) {
    const [engines, probe] = [join(folder, 'engines'), join(folder, 'probe')]
    const more = { RECEIVERD_ENGINES: engines, SOAK_PROBE: probe, NODE_OPTIONS: `--require=${PROBE}` }
    super(root, { env: { ...ENV, ...more } })
    this.engines = engines
    this.#probe = probe
  }

  /** Milliseconds since 1970, as the service sees them. */
  now(): number {
    return Date.now() + this.#offsetMs
  }

  /** Steps the clock to so many milliseconds from that of the host. */
  async stepClock(offsetMs: number): Promise<void> {
    this.isStepping = true
    this.#offsetMs = offsetMs
    await this.#order({ offsetMs })
    this.isClockSet = ((await (await this.fetch('/status')).json()) as { clockSet: boolean }).clockSet
    this.isStepping = false
  }

  measure(): Promise<Measured> {
    return this.#order({ sample: true })
  }

  /** On connections that can be told to close: those of the global fetch() linger. */
  override fetch(path: string, init: RequestInit = {}): Promise<Response> {
    return this.ask(`/api/v1${path}`, { ...init, headers: { Authorization: `Bearer ${this.key}`, ...init.headers } })
  }

  /** Any path of the service, without a credential. */
  async ask(path: string, { method, body, headers, signal }: RequestInit = {}): Promise<Response> {
    this.requests++
    const { hostname, port } = new URL(this.url)
    const head = headers as Record<string, string>
    const options = { hostname, port, path, agent: this.#agent, ...(method && { method }) }
    const within = AbortSignal.any([AbortSignal.timeout(4 * DEADLINE_MS), ...(signal ? [signal] : [])])
    const answer = await new Promise<IncomingMessage>((resolve, reject) =>
      request({ ...options, headers: head, signal: within })
        .on('response', resolve)
        .on('error', reject)
        .end(body as string | undefined),
    )
    const bytes = Buffer.concat(await answer.toArray())
    const received = Object.entries(answer.headersDistinct).map(([name, values]) => [name, values?.[0] ?? ''] as const)
    const status = answer.statusCode ?? 0
    return new Response([204, 304].includes(status) ? null : bytes, {
      status,
      headers: received.map(pair => [...pair]),
    })
  }

  /** Closes the connections that no request is using. */
  hangUp(): void {
    this.#agent.destroy()
    this.#agent = new Agent({ keepAlive: true, maxSockets: 16 })
  }

  /**
   * Waits until nobody is connected but so many streams, and this.
   * @param areOpen Opens them again, as they may be put out at any time, and learn of it late.
   */
  async isQuiet(streams: number, areOpen: () => Promise<void>): Promise<void> {
    let status: Record<string, number> = {}
    await eventually(async () => {
      await areOpen()
      status = (await (await this.fetch('/status')).json()) as Record<string, number>
      const { connections = 0, heldPolls, sessions } = status
      return status.streams === streams && heldPolls === 0 && sessions === 0 && connections <= streams + 1
    }).catch(() => {
      throw new Error(`${streams} streams are open, and it has: ${JSON.stringify(status)}`)
    })
  }

  async #order<T>(order: object): Promise<T> {
    const socket = connect(this.#probe)
    socket.setEncoding('utf8').write(JSON.stringify(order))
    return JSON.parse((await socket.toArray()).join('')) as T
  }
}

export async function startSoaked(t: Test): Promise<SoakedService> {
  const service = new SoakedService(deviceRoot(t), temporaryFolder(t))
  t.teardown(async () => {
    service.hangUp()
    await service.kill()
  })
  await service.start()
  return service
}
