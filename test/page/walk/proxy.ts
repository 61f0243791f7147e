/** A proxy between the browser and the device: it records the page's requests, and misbehaves when it is told to. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'

/** The fate of the next request that changes something. */
export type Fault =
  | { readonly kind: 'refused'; readonly status: 500 | 503 }
  /** The device has done it, and the answer takes that long. */
  | { readonly kind: 'late'; readonly ms: number }
  /** The connection breaks: before the device has got it, or before its answer has come back. */
  | { readonly kind: 'cut before' }
  | { readonly kind: 'cut after' }

/** A request that changes something. */
export interface Sent {
  readonly method: string
  /** Below the API. */
  readonly path: string
  readonly body: string
  /** The same was left without an answer when its connection broke: a browser itself sends such a request again. */
  readonly mayBeRepeat: boolean
}

const API = '/api/v1'

export class FaultyProxy {
  readonly url: string
  /** The page's requests since `take` was called last. */
  #sent: Sent[] = []
  readonly #broken = new Set<string>()
  #fault: Fault | undefined
  #refused = 0
  readonly #target: () => string
  readonly #sockets: ReadonlySet<Socket>

  private constructor(url: string, target: () => string, sockets: ReadonlySet<Socket>) {
    this.url = url
    this.#target = target
    this.#sockets = sockets
  }

  /** @param target The address of the device, which changes when it restarts. */
  static async start(t: Test, target: () => string): Promise<FaultyProxy> {
    const sockets = new Set<Socket>()
    let proxy: FaultyProxy | undefined
    const server = createServer((asked, answer) => void proxy?.pass(asked, answer)).listen(0, '127.0.0.1')
    server.on('connection', socket => {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
    })
    await once(server, 'listening')
    t.teardown(() => {
      server.closeAllConnections()
      server.close()
    })
    proxy = new FaultyProxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, target, sockets)
    return proxy
  }

  /** The page's requests since the last call. */
  take(): readonly Sent[] {
    const sent = this.#sent
    this.#sent = []
    return sent
  }

  /** The first of the page's requests since then. */
  get first(): Sent | undefined {
    return this.#sent[0]
  }

  /** Whether a fault is still to come. */
  get isArmed(): boolean {
    return this.#fault !== undefined
  }

  /** Strikes the next request that changes something; undefined calls it off. */
  arm(fault: Fault | undefined): void {
    this.#fault = fault
  }

  /** Breaks off every connection, and refuses the next requests that only read. */
  cut(refused = 0): void {
    this.#refused = refused
    for (const socket of this.#sockets) socket.destroy()
  }

  async pass(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const { method = '', url = '' } = asked
    const chunks: Buffer[] = []
    for await (const chunk of asked) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    if (method === 'GET') return this.#refused-- > 0 ? refuse(answer, 503) : this.#forward(asked, answer, body)
    const sent = { method, path: url.replace(API, ''), body: body.toString() }
    const text = JSON.stringify(sent)
    this.#sent.push({ ...sent, mayBeRepeat: this.#broken.has(text) })
    answer.on('close', () => {
      if (!answer.writableFinished) this.#broken.add(text)
    })
    const fault = this.#fault
    this.#fault = undefined
    if (fault?.kind === 'cut before') asked.socket.destroy()
    else if (fault?.kind === 'refused') refuse(answer, fault.status)
    else this.#forward(asked, answer, body, fault)
  }

  #forward(asked: IncomingMessage, answer: ServerResponse, body: Buffer, fault?: Fault): void {
    const hangUp = () => asked.socket.destroy()
    const { method, headers } = asked
    const onward = request(new URL(asked.url ?? '/', this.#target()), { method, headers, agent: false })
    onward.on('error', hangUp).on('response', async reply => {
      reply.on('error', hangUp)
      if (fault?.kind === 'cut after') return void hangUp()
      if (fault?.kind === 'late') await sleep(fault.ms)
      answer.writeHead(reply.statusCode ?? 502, reply.headers)
      // The first event of a stream may be long in coming.
      answer.flushHeaders()
      reply.pipe(answer)
    })
    answer.on('close', () => onward.destroy())
    onward.end(body)
  }
}

function refuse(answer: ServerResponse, status: number): void {
  const detail = `The walk has refused this with ${status}.`
  answer.writeHead(status, { 'Content-Type': 'application/problem+json' }).end(JSON.stringify({ status, detail }))
}
