// The clients, in a process of their own. It is sent tasks over fork()'s channel, does one after the other, and sends the
// result of each. If the server does not do its part, it says so and exits. Bare sockets, and bytes made beforehand: on a
// small board clients take their processor time from the server.
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../median.ts'

export type Task = {
  readonly port: number
  /** The whole text; when it publishes, `########` becomes the event's number. */
  readonly request: string
} & (
  | { readonly what: 'get'; readonly connections: number; readonly forMs: number }
  /** Closes the open streams, and opens others. */
  | { readonly what: 'follow'; readonly streams: number }
  /** At an even pace, or without a pause if `everyMs` is 0, until every stream has every event. */
  | { readonly what: 'publish'; readonly events: number; readonly everyMs: number }
)

export interface Result {
  readonly ms: number
  /** Requests answered. */
  readonly answered: number
  /** Events received by clients, each once and in order. */
  readonly delivered: number
  /** Median milliseconds from a request to its answer, and to its event at the last client. */
  readonly answerMs: number
  readonly lastClientMs: number
}

/** Changes without an answer yet. */
const MAX_IN_FLIGHT = 16
/** Milliseconds without a byte after which it gives up. */
const PATIENCE_MS = 30_000

const followers: Socket[] = []
/** Events so far. */
let published = 0
let onDelivered: (event: number) => void = () => undefined
let patience: NodeJS.Timeout | undefined

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

function open(port: number, request: string): Socket {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  socket.on('data', () => patience?.refresh())
  socket.on('error', error => fail(error.message))
  socket.on('end', () => fail('the server closed a connection'))
  socket.write(request)
  return socket
}

/** Calls `onAnswer` after each complete answer. */
function readAnswers(socket: Socket, onAnswer: () => void): void {
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', chunk => {
    rest = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
    for (;;) {
      const headEnd = rest.indexOf('\r\n\r\n')
      if (headEnd < 0) return
      const head = rest.toString('latin1', 0, headEnd)
      const length = /^HTTP\/1\.1 200 [\s\S]*\r\ncontent-length: (\d+)/i.exec(head)?.[1]
      if (length === undefined) fail(`a request was answered with ${rest}`)
      const end = headEnd + 4 + Number(length)
      if (rest.length < end) return
      rest = rest.subarray(end)
      onAnswer()
    }
  })
}

/** Calls `onOpen` when the stream is open, and `onDelivered` for each event. */
function readEvents(socket: Socket, client: number, onOpen: () => void): void {
  let last = published
  let rest = ''
  socket.once('data', head => (`${head}`.startsWith('HTTP/1.1 200 ') ? onOpen() : fail(`no stream, but ${head}`)))
  socket.setEncoding('latin1').on('data', chunk => {
    const blocks = (rest + chunk).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      // A comment; the first comes with the head of the answer.
      if (!block.includes('event: ')) continue
      const event = Number(/"deviceName":"bench-(\d{8})"/.exec(block)?.[1])
      if (event !== last + 1) fail(`client ${client} has had event ${last}, and now gets ${block}`)
      last = event
      onDelivered(event)
    }
  })
}

function get(port: number, request: string, connections: number, forMs: number): Promise<Partial<Result>> {
  const bytes = Buffer.from(request)
  const from = performance.now()
  let answered = 0
  let busy = connections
  return new Promise(resolve => {
    for (let n = 0; n < connections; n++) {
      const socket = open(port, request)
      readAnswers(socket, () => {
        answered++
        const ms = performance.now() - from
        if (ms < forMs) return void socket.write(bytes)
        socket.destroy()
        if (--busy === 0) resolve({ ms, answered })
      })
    }
  })
}

async function follow(port: number, request: string, streams: number): Promise<Partial<Result>> {
  for (const socket of followers.splice(0)) socket.destroy()
  for (let client = 1; client <= streams; client++) {
    const socket = open(port, request)
    followers.push(socket)
    await new Promise<void>(resolve => readEvents(socket, client, resolve))
  }
  return {}
}

/** Requests are pipelined: the changes of one connection keep their order, RFC 9112 section 9.3.2. */
async function publish(port: number, request: string, events: number, everyMs: number): Promise<Partial<Result>> {
  const before = published
  const sentAt: number[] = []
  const answerMs: number[] = []
  const lastClientMs: number[] = []
  const clientsWith = new Array<number>(events).fill(0)
  const expected = events * followers.length
  let delivered = 0
  let wake: () => void = () => undefined
  const news = () =>
    new Promise<void>(resolve => {
      wake = resolve
    })
  onDelivered = event => {
    const at = event - before - 1
    const sent = sentAt[at] ?? fail(`event ${event} was never sent`)
    const clients = (clientsWith[at] ?? 0) + 1
    clientsWith[at] = clients
    if (clients === followers.length) lastClientMs.push(performance.now() - sent)
    if (++delivered === expected) wake()
  }
  const socket = open(port, '')
  readAnswers(socket, () => {
    answerMs.push(performance.now() - (sentAt[answerMs.length] ?? 0))
    wake()
  })

  const from = performance.now()
  while (sentAt.length < events) {
    while (sentAt.length - answerMs.length >= MAX_IN_FLIGHT) await news()
    if (everyMs > 0) await sleep(Math.max(0, from + sentAt.length * everyMs - performance.now()))
    sentAt.push(performance.now())
    socket.write(request.replace('########', String(++published).padStart(8, '0')))
  }
  while (answerMs.length < events || delivered < expected) await news()
  const ms = performance.now() - from
  socket.destroy()
  return { ms, answered: events, delivered, answerMs: median(answerMs), lastClientMs: median(lastClientMs) }
}

function run(task: Task): Promise<Partial<Result>> {
  const { port, request } = task
  if (task.what === 'get') return get(port, request, task.connections, task.forMs)
  if (task.what === 'follow') return follow(port, request, task.streams)
  return publish(port, request, task.events, task.everyMs)
}

process.on('message', async (task: Task) => {
  patience = setTimeout(() => fail(`${task.what}: nothing received for ${PATIENCE_MS / 1000} s`), PATIENCE_MS)
  const result = await run(task)
  clearTimeout(patience)
  process.send?.(result)
})
process.on('disconnect', () => process.exit())
