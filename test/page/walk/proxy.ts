/** A proxy between the browser and the device: it records the page's requests, and misbehaves when it is told to. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
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

export const FAULTS: readonly Fault[] = [
  { kind: 'refused', status: 500 },
  { kind: 'refused', status: 503 },
  { kind: 'late', ms: 700 },
  { kind: 'late', ms: 3_000 },
  { kind: 'cut before' },
  { kind: 'cut after' },
]

/** A request that changes something. */
export interface Sent {
  readonly method: string
  /** Below the API. */
  readonly path: string
  readonly body: string
  /** The ETag that it names; empty without one. */
  readonly ifMatch: string
  readonly fault: Fault | undefined
  /** The device's answer, even if it does not come back; undefined if the device has not got the request. */
  readonly answered: Promise<Answer | undefined>
  /** The same was left without an answer when its connection broke: a browser itself sends such a request again. */
  readonly mayBeRepeat: boolean
}

export interface Answer {
  readonly status: number
  readonly etag: string
  /** Seconds within which a change must be confirmed. */
  readonly trialS: number | undefined
}

const API = '/api/v1'
/** The page learns from the schemas that changes are on trial for so many seconds: nobody walks past for a minute. */
const LONG_TRIAL = '"x-confirm-within":60'
export const TRIAL_S = 8
const SHORT_TRIAL = `"x-confirm-within":${String(TRIAL_S).padStart(2)}`
const SCHEMAS = `${API}/openapi.json`
const CONFIRM = '/system/confirm'

export class FaultyProxy {
  readonly url: string
  /** The page's requests since `take` was called last. */
  #sent: Sent[] = []
  readonly #broken = new Set<string>()
  #faults: (Fault | undefined)[] = []
  #refused = 0
  readonly #target: () => string
  readonly #sockets: ReadonlySet<Socket>
  #heard: (sent: Sent, answer: Answer) => void = () => undefined

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

  /** The first of the page's requests since then that somebody has pressed for: a confirmation follows by itself. */
  get first(): Sent | undefined {
    return this.#sent.find(({ path }) => path !== CONFIRM)
  }

  /** Strikes the next requests that change something, each with its fault, and calls off any other. */
  arm(...faults: readonly (Fault | undefined)[]): void {
    this.#faults = [...faults]
  }

  /** Calls it with each answer of the device to a request that changes something, before the page has the answer. */
  listen(heard: (sent: Sent, answer: Answer) => void): void {
    this.#heard = heard
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
    if (method === 'GET') return void (this.#refused-- > 0 ? refuse(answer, 503) : this.#forward(asked, answer, body))
    const whole = [method, url, body].join(' ')
    const mayBeRepeat = this.#broken.has(whole)
    answer.on('close', () => {
      if (!answer.writableFinished) this.#broken.add(whole)
    })
    const fault = this.#faults.shift()
    const answered = this.#struck(asked, answer, body, fault)
    const [path, ifMatch] = [url.replace(API, ''), idIn(asked.headers['if-match'])]
    const sent: Sent = { method, path, body: body.toString(), ifMatch, fault, answered, mayBeRepeat }
    this.#sent.push(sent)
    const heard = await answered
    if (heard) this.#heard(sent, heard)
  }

  async #struck(
    asked: IncomingMessage,
    answer: ServerResponse,
    body: Buffer,
    fault: Fault | undefined,
  ): Promise<Answer | undefined> {
    if (fault?.kind === 'refused') return refuse(answer, fault.status)
    if (fault?.kind === 'cut before') return void asked.socket.destroy()
    return this.#forward(asked, answer, body, fault)
  }

  /** @returns the device's answer, as soon as its head is there; undefined if there is none. */
  #forward(asked: IncomingMessage, answer: ServerResponse, body: Buffer, fault?: Fault): Promise<Answer | undefined> {
    const { method, headers, url = '/' } = asked
    const onward = request(new URL(url, this.#target()), { method, headers, agent: false })
    answer.on('close', () => onward.destroy())
    onward.end(body)
    return new Promise(resolve => {
      const hangUp = () => {
        resolve(undefined)
        asked.socket.destroy()
      }
      onward.on('error', hangUp).on('response', async reply => {
        reply.on('error', hangUp)
        const { statusCode: status = 502 } = reply
        const trialS = reply.headers['confirm-within']
        resolve({ status, etag: idIn(reply.headers.etag), trialS: trialS === undefined ? undefined : Number(trialS) })
        if (fault?.kind === 'cut after') return void hangUp()
        if (fault?.kind === 'late') await sleep(fault.ms)
        answer.writeHead(status, reply.headers)
        if (url === SCHEMAS) return void answer.end((await text(reply)).replaceAll(LONG_TRIAL, SHORT_TRIAL))
        // The first event of a stream may be long in coming.
        answer.flushHeaders()
        reply.pipe(answer)
      })
    })
  }
}

function idIn(etag = ''): string {
  return etag.replaceAll('"', '')
}

function refuse(answer: ServerResponse, status: number): undefined {
  const detail = `The walk has refused this with ${status}.`
  answer.writeHead(status, { 'Content-Type': 'application/problem+json' }).end(JSON.stringify({ status, detail }))
}
