/**
 * Raw connections: requests that are pipelined, cut anywhere, changed in one byte, and half-closed, against a model of the
 * answers. Answers are read by a reader of its own, which takes them by the letter of RFC 9112.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { startTestService, type TestService } from '../../support/service.ts'
import type { Input } from '../input.ts'
import { must, type Target } from '../target.ts'
import { Scope } from './scope.ts'

/** Milliseconds for the last answer. The machine may be busy with something else. */
const ANSWERED_MS = 30_000

interface Expected {
  readonly bytes: string
  readonly status: number
  /** The answer has no body, whatever its header says. */
  readonly isHead?: boolean
  /** 200 with events will do: a client that has gone leaves a change that is still being made. */
  readonly mayHaveEvents?: boolean
  /** Whether the connection may end with the answer: the rest of the body is not read, or it is the client's wish. */
  readonly mayEnd?: boolean
  readonly ends?: boolean
  /** The connection becomes a stream of events: nothing else can follow. */
  readonly streams?: boolean
  /** 100 Continue comes first. */
  readonly continues?: boolean
  /** The name of the device from then on. */
  readonly names?: string
  /** The answer has the configuration. */
  readonly reads?: boolean
}

interface Answer {
  readonly status: number
  readonly head: string
  readonly body: string
}

let started: { readonly scope: Scope; readonly service: TestService } | undefined

async function serviceOf(): Promise<TestService> {
  if (!started) {
    const scope = new Scope()
    started = { scope, service: await startTestService(scope.test) }
  }
  return started.service
}

const head = (method: string, path: string, headers: readonly string[] = [], version = '1.1') =>
  `${method} ${path} HTTP/${version}\r\n${['Host: device', ...headers].map(line => `${line}\r\n`).join('')}\r\n`

/** A body in chunks of some lengths. */
function chunked(text: string, length: number, trailer: string): string {
  const chunks: string[] = []
  for (let at = 0; at < text.length; at += length) {
    const part = text.slice(at, at + length)
    chunks.push(`${part.length.toString(16)}\r\n${part}\r\n`)
  }
  return `${chunks.join('')}0\r\n${trailer}\r\n`
}

function patch(input: Input, credential: string): Expected {
  const name = `n${input.byte()}`
  const [body, answered] = input.pick([
    [JSON.stringify({ deviceName: name }), 200],
    [JSON.stringify({ deviceName: '' }), 422],
    ['{"deviceName":', 400],
    ['{"deviceName":"a","deviceName":"b"}', 400],
    ['', 400],
    ['{}', 200],
  ] as const)
  const type = input.pick([
    'application/json',
    'application/merge-patch+json',
    'text/plain',
    'application/json; charset=utf-8',
  ])
  const authorization = input.below(4) === 0 ? 'Bearer nobody' : credential
  const isChunked = input.flag()
  const expects = input.below(4) === 0
  const length = 1 + input.byte()
  const trailer = input.pick(['', 'X-Trailer: 1\r\n'])
  const refused = authorization !== credential ? 401 : type === 'text/plain' ? 415 : undefined
  const status = refused ?? answered
  const headers = [
    `Authorization: ${authorization}`,
    `Content-Type: ${type}`,
    isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`,
    ...(expects ? ['Expect: 100-continue'] : []),
  ]
  return {
    bytes: head('PATCH', '/api/v1/system', headers) + (isChunked ? chunked(body, length, trailer) : body),
    status,
    continues: expects && refused === undefined,
    mayEnd: status !== 200 && (isChunked || expects),
    ...(status === 200 && body.includes(name) && { names: name }),
    reads: status === 200,
  }
}

const KINDS: readonly ((input: Input, service: TestService) => Expected)[] = [
  () => ({ bytes: head('GET', '/api/v1/health'), status: 200 }),
  () => ({ bytes: head('GET', '/api/v1/nowhere'), status: 404 }),
  () => ({ bytes: head('HEAD', '/api/v1/health'), status: 200, isHead: true }),
  () => ({ bytes: head('DELETE', '/api/v1/system'), status: 405 }),
  () => ({ bytes: head('GET', 'http://other.example/api/v1/health'), status: 200 }),
  () => ({ bytes: head('GET', '/api/v1/system'), status: 401 }),
  (_, { key }) => ({
    bytes: head('GET', '/api/v1/system', [`Authorization: Bearer ${key}`]),
    status: 200,
    reads: true,
  }),
  (_, { key }) => ({ bytes: head('GET', `/api/v1/system?apiKey=${key}`), status: 200, reads: true }),
  (_, { key }) => ({ bytes: head('GET', '/api/v1/system?apiKey=x', [`Authorization: Bearer ${key}`]), status: 400 }),
  (input, { key }) => patch(input, `Bearer ${key}`),
  (input, { key }) => patch(input, `Basic ${Buffer.from(`:${key}`).toString('base64')}`),
  () => ({ bytes: head('GET', '/api/v1/health', ['Host: other']), status: 400, mayEnd: true }),
  () => ({ bytes: head('GET', '/api/v1/health', ['Expect: more']), status: 417, mayEnd: true }),
  () => ({ bytes: head('GET', '/api/v1/health', [], '1.0'), status: 200, mayEnd: true, ends: true }),
  () => ({ bytes: head('GET', '/api/v1/health', ['Connection: close']), status: 200, ends: true }),
  () => ({ bytes: `${head('GET', '/api/v1/health', ['Content-Length: 3'])}abc`, status: 422, mayEnd: true }),
  (_, { key }) => ({
    bytes: head('GET', '/api/v1/events', [`Authorization: Bearer ${key}`, 'If-None-Match: *']),
    status: 304,
    mayHaveEvents: true,
  }),
  input => ({
    bytes: `\r\n${head('GET', '/api/v1/health', [
      `X: ${input
        .chunk()
        .toString('latin1')
        .replace(/[^ -~\x80-\xfe]/g, '')}`,
    ])}`,
    status: 200,
  }),
  (_, { key }) => ({
    bytes: head('GET', '/api/v1/events', [`Authorization: Bearer ${key}`, 'Accept: text/event-stream']),
    status: 200,
    streams: true,
  }),
]

/** The answers in a stream, each to the request at its place. @throws {Finding} if one is no answer. */
function answersIn(text: string, requests: readonly Expected[], certain: number): readonly Answer[] {
  const answers: Answer[] = []
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\r\n\r\n', at)
    const lines = text.slice(at, end).split('\r\n')
    const facts = () => ({ text: text.slice(at, at + 400), before: text.slice(Math.max(0, at - 200), at) })
    const [, code] = /^HTTP\/1\.1 (\d{3}) [ -~]*$/.exec(lines[0] ?? '') ?? []
    must(end >= 0 && code !== undefined, 'something follows that is no answer', facts)
    const status = Number(code)
    at = end + 4
    if (status === 100) {
      must(lines.length === 1, '100 Continue has headers', facts)
      answers.push({ status, head: '', body: '' })
      continue
    }
    for (const line of lines.slice(1)) must(/^[A-Za-z-]+: [\t -~\x80-\xff]*$/.test(line), 'a header is none', facts)
    const index = answers.filter(({ status }) => status !== 100).length
    const isStream = lines.includes('Content-Type: text/event-stream')
    const lengths = lines.flatMap(line => /^Content-Length: (\d+)$/i.exec(line)?.[1] ?? [])
    // Of a request that was changed it is not certain whether it was HEAD.
    const isUnclear = index >= certain && (at === text.length || text.startsWith('HTTP/1.1 ', at))
    const isHead = index < certain ? requests[index]?.isHead === true : isUnclear
    const isBodyless = status === 204 || status === 304 || isHead
    must(lengths.length === 1 || status === 204 || status === 304 || isStream, 'an answer has no length', facts)
    const length = isStream ? text.length - at : isBodyless ? 0 : Number(lengths[0] ?? 0)
    must(at + length <= text.length, 'an answer is cut short', facts)
    answers.push({ status, head: lines.join('\n'), body: text.slice(at, at + length) })
    at += length
  }
  return answers
}

async function exchange(
  service: TestService,
  bytes: Buffer,
  cuts: readonly number[],
  isHalfClosed: boolean,
): Promise<string> {
  const socket = connect(service.port, '127.0.0.1').setNoDelay(true)
  let answer = ''
  let isReset = false
  socket.setEncoding('latin1').on('data', chunk => {
    answer += chunk
  })
  // Data that the server did not want may be answered with a reset, after the answer.
  socket.on('error', () => {
    isReset = true
  })
  const closed = once(socket, 'close').catch(() => undefined)
  await once(socket, 'connect')
  let from = 0
  for (const cut of [...cuts, bytes.length]) {
    if (cut > from && !isReset && socket.writable) socket.write(bytes.subarray(from, cut))
    from = Math.max(from, cut)
    await turn()
    await turn()
  }
  if (isHalfClosed && socket.writable) socket.end()
  const timer = setTimeout(() => socket.destroy(new Error('late')), ANSWERED_MS)
  const began = performance.now()
  await closed
  clearTimeout(timer)
  must(performance.now() - began < ANSWERED_MS, 'the connection is not ended', () => ({
    bytes: bytes.toString('latin1'),
    answer,
  }))
  return answer
}

async function run(input: Input): Promise<void> {
  const service = await serviceOf()
  const requests: Expected[] = []
  const changed =
    input.below(3) === 0 ? { at: input.byte() * 256 + input.byte(), by: input.byte(), how: input.below(3) } : undefined
  const cuts = Array.from({ length: input.below(8) }, () => input.byte() * 8 + (input.byte() & 7))
  const isLeft = input.flag()
  while (!input.isOver && requests.length < 24 && !requests.at(-1)?.streams)
    requests.push(input.pick(KINDS)(input, service))
  const isHeld = requests.at(-1)?.status === 304
  const isStream = requests.at(-1)?.streams === true
  // The last one ends the connection, unless the client's half does.
  if ((!isLeft && !isStream) || isHeld)
    requests.push({ bytes: head('GET', '/api/v1/health', ['Connection: close']), status: 200, ends: true })
  let bytes = Buffer.from(requests.map(({ bytes }) => bytes).join(''), 'latin1')
  let certain = requests.length
  if (changed && bytes.length > 0) {
    const at = changed.at % bytes.length
    const [removed, added] = [
      [1, [changed.by]],
      [0, [changed.by]],
      [1, []],
    ][changed.how] as [number, number[]]
    bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from(added), bytes.subarray(at + removed)])
    let end = 0
    certain = requests.findIndex(request => {
      end += Buffer.byteLength(request.bytes, 'latin1')
      return end > at
    })
  }
  const isHalfClosed = isLeft || isStream || changed !== undefined
  const sorted = cuts.map(cut => cut % (bytes.length + 1)).sort((a, b) => a - b)
  const answer = await exchange(service, bytes, sorted, isHalfClosed)
  judge(requests, certain, answer, bytes.toString('latin1'), changed !== undefined, isHalfClosed)
}

function judge(
  requests: readonly Expected[],
  certain: number,
  text: string,
  sent: string,
  isChanged: boolean,
  isHalfClosed: boolean,
): void {
  const answers = answersIn(text, requests, certain)
  let next = 0
  let name: string | undefined
  for (const [at, expected] of requests.slice(0, certain).entries()) {
    const facts = () => ({
      at,
      expected: { ...expected, bytes: expected.bytes.slice(0, 300) },
      got: answers.map(({ status }) => status),
      sent,
    })
    if (expected.continues) {
      const isInterim = answers[next]?.status === 100
      // Not asked for, if the body is there already.
      if (isInterim) next++
    }
    const answer = answers[next++]
    // A client that ends its half counts as gone: it need not get unfinished answers.
    if (
      answer === undefined &&
      isHalfClosed &&
      requests
        .slice(0, at + 1)
        .some(({ bytes }) => /^(PATCH|HEAD|If-None-Match|Content-Length|Expect|Accept)|1\.0\r$/m.test(bytes))
    )
      return
    must(answer !== undefined, 'a request is not answered', facts)
    const hasEvents = expected.mayHaveEvents && answer.status === 200
    must(hasEvents || answer.status === expected.status, 'a request has another answer', facts)
    const isLast = /^Connection: close$/im.test(answer.head)
    if (expected.reads && answer.status === 200) {
      const { deviceName } = JSON.parse(Buffer.from(answer.body, 'latin1').toString())
      name = expected.names ?? name
      must(name === undefined || deviceName === name, 'a request does not see the change before it', facts)
    }
    if (answer.status >= 400 && !expected.isHead) {
      const problem = JSON.parse(Buffer.from(answer.body, 'latin1').toString())
      must(problem.status === answer.status, 'the problem has another status', facts)
    }
    must(!expected.ends || isLast, 'the connection does not end as the client asked', facts)
    if (isLast) {
      must(next === answers.length, 'something follows the last answer', facts)
      const mayEnd = expected.ends || expected.mayEnd || at === certain - 1
      must(mayEnd, 'the connection ends before its requests are answered', facts)
      return
    }
  }
  must(isChanged || next === answers.length, 'there are more answers than requests', () => ({
    got: answers.map(({ status }) => status),
    sent,
  }))
  must(
    answers.filter(({ status }) => status !== 100).length <= requests.length + 2,
    'there are more answers than requests',
    () => ({ got: answers.map(({ status }) => status), sent }),
  )
}

export const connections: Target = {
  name: 'connections',
  maxLength: 256,
  executions: 150,
  seeds: [
    ...KINDS.map((_, at) => Buffer.of(1, 0, 0, at, 1, 2, 0, 0, 0)),
    ...KINDS.map((_, at) => Buffer.of(1, 3, 2, 1, 4, 0, 9, 3, 1, at, 0, 0, 0, 1, 1, 9, 0, at)),
    Buffer.of(1, 0, 0, 16, 6, 9, 5, 0, 0, 1, 1, 1, 20, 0, 6),
    Buffer.of(0, 0, 9, 65, 0, 0, 0, 0, 6, 9, 7, 0, 0, 1, 1, 1),
  ],
  words: [Buffer.of(9, 1, 0, 0, 1, 1, 3, 2, 1), Buffer.of(6, 6), Buffer.of(16, 0), Buffer.of(10, 2, 0, 1, 1, 0, 4)].map(
    bytes => bytes.toString('latin1'),
  ),
  run,
  async close() {
    await started?.scope.end()
    started = undefined
  },
}
