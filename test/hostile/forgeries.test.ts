/** A flood of tokens with the right shape and the wrong signature: it costs others little time, and none of them a refusal. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { mint } from '../../src/auth/jwt.ts'
import { MAX_SIGNATURES_PER_ADDRESS, MAX_WAITING_SIGNATURES } from '../../src/limits.ts'
import { type Receiver, startReceiver } from '../interop/support.ts'
import { eventually } from '../support/eventually.ts'
import { TestIssuer } from '../support/issuer.ts'

/** With all of their places taken, these leave some to others. */
const ADDRESSES = MAX_WAITING_SIGNATURES / MAX_SIGNATURES_PER_ADDRESS
/** Of each address: twice as many as it has places. */
const CONNECTIONS = 2 * MAX_SIGNATURES_PER_ADDRESS
/** Fewer if the machine is too busy: the next burst of an address waits for the answers to its last one. */
const PER_SECOND = 1_000
/** The addresses take turns. */
const BURST_MS = (1_000 * CONNECTIONS) / PER_SECOND
const BURSTS = 256
const BETWEEN_MS = 5
/** Another program may have the processor just while a client of the flooded receiver waits. */
const SLACK_MS = 250

/** One connection of an attacker. */
class Attacker {
  readonly statuses = new Map<string, number>()
  answers = 0
  withRetryAfter = 0
  readonly #socket: Socket
  #requests = 0
  #unread = ''

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true).setEncoding('latin1')
    socket.on('data', chunk => this.#read(chunk.toString()))
  }

  static async from(t: Test, localAddress: string, port: number): Promise<Attacker> {
    const socket = connect({ port, host: '127.0.0.1', localAddress })
    t.teardown(() => socket.destroy())
    await once(socket, 'connect')
    return new Attacker(socket.on('error', () => undefined))
  }

  /** The requests that have no answer yet. */
  get waiting(): number {
    return this.#requests - this.answers
  }

  send(token: string): void {
    this.#requests++
    this.#socket.write(`GET /api/v1/system HTTP/1.1\r\nHost: device\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  }

  #read(text: string): void {
    this.#unread += text
    for (;;) {
      const [head, length] = /^HTTP\/1\.1 .*?\r\nContent-Length: (\d+)\r\n.*?\r\n\r\n/is.exec(this.#unread) ?? []
      const size = (head?.length ?? 0) + Number(length)
      if (head === undefined || this.#unread.length < size) return
      this.#unread = this.#unread.slice(size)
      const status = head.slice(9, 12)
      this.answers++
      this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1)
      if (/\r\nRetry-After: [1-9]\d*\r\n/i.test(head)) this.withRetryAfter++
    }
  }
}

/** A client that asks again and again. @returns how long each answer took, in milliseconds. */
async function ask(receiver: Receiver, nextToken: () => string, isOver: () => boolean): Promise<readonly number[]> {
  const took: number[] = []
  while (!isOver()) {
    const began = performance.now()
    const response = await receiver.fetchAs(nextToken())
    await response.arrayBuffer()
    took.push(performance.now() - began)
    if (response.status !== 200) throw new Error(`refused with ${response.status} during the flood`)
    await sleep(BETWEEN_MS)
  }
  return took
}

function p90(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.9)] ?? Number.NaN
}

/** Bytes that a process has had in memory at most. */
function peakOf(pid: number): number {
  return 1024 * Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

t.test('1,000 forgeries a second', async t => {
  const receiver = await startReceiver(t)
  const issuers = [new TestIssuer('fleet'), new TestIssuer('ops', 'ES256')] as const
  for (const { name, file } of issuers.map(issuer => ({ name: issuer.name, file: issuer.file() }))) {
    const headers = { 'Content-Type': 'application/json' }
    t.equal((await receiver.fetch(`/issuers/${name}`, { method: 'PUT', body: file, headers })).status, 201)
  }
  const impostors = [new TestIssuer('fleet'), new TestIssuer('ops', 'ES256')] as const
  const forgeries = Array.from({ length: BURSTS * CONNECTIONS }, (_, n) =>
    (n % 2 === 0 ? impostors[0] : impostors[1]).token({ sub: `${n}` }),
  )
  const ofKey = mint(receiver.key, { roles: ['admin:r'] })
  const remembered = issuers[0].token()
  let made = 0
  const clients = {
    'a token of the API key': () => ofKey,
    'a token of an issuer, remembered': () => remembered,
    'a new token of an issuer each time': () => issuers[0].token({ sub: `new-${made++}` }),
  }
  // Asked at the same time, it shows what the machine and this program are busy with besides the flood.
  const elsewhere = await startReceiver(t)
  const askAll = (isOver: () => boolean) =>
    Promise.all([
      ask(elsewhere, () => elsewhere.key, isOver),
      ...Object.values(clients).map(nextToken => ask(receiver, nextToken, isOver)),
    ])

  await askAll(() => made >= 50)
  const peakBefore = peakOf(receiver.pid)
  const linesBefore = receiver.log.length

  const attackers: Attacker[] = []
  for (let n = 0; n < ADDRESSES * CONNECTIONS; n++)
    attackers.push(await Attacker.from(t, `127.0.0.${2 + Math.floor(n / CONNECTIONS)}`, receiver.port))
  let isOver = false
  const during = askAll(() => isOver)
  const began = performance.now()
  for (const [n, forgery] of forgeries.entries()) {
    const attacker = attackers[n % attackers.length]
    await eventually(() => attacker?.waiting === 0)
    attacker?.send(forgery)
    const due = began + ((n + 1) / CONNECTIONS) * BURST_MS
    if ((n + 1) % CONNECTIONS === 0) await sleep(Math.max(0, due - performance.now()))
  }
  const seconds = (performance.now() - began) / 1000
  await eventually(() => sum(attackers.map(({ answers }) => answers)) === forgeries.length)
  isOver = true
  const [elsewhereTook = [], ...took] = await during

  const countOf = (status: string) => sum(attackers.map(({ statuses }) => statuses.get(status) ?? 0))
  const [refused, busy] = [countOf('401'), countOf('503')]
  t.comment(`${forgeries.length} forgeries in ${seconds.toFixed(1)} s: ${refused} times 401, ${busy} times 503`)
  t.equal(refused + busy, forgeries.length, 'each is answered, and none is accepted')
  t.ok(refused > 0, 'some are verified')
  t.ok(busy > 0, 'those beyond the places of their addresses are not')
  t.equal(sum(attackers.map(({ withRetryAfter }) => withRetryAfter)), busy, 'a 503 says when to try again')

  const calm = p90(elsewhereTook)
  for (const [n, name] of Object.keys(clients).entries()) {
    const flooded = p90(took[n] ?? [])
    const times = `${name}: p90 ${flooded.toFixed(1)} ms, at a receiver without a flood ${calm.toFixed(1)} ms`
    t.comment(times)
    // A new token waits for its turn behind the flood's, which on a busy machine may take a second.
    if (!name.startsWith('a new')) t.ok(flooded < 10 * calm + SLACK_MS, times)
    t.ok((took[n]?.length ?? 0) > 20, `${name}: was answered all the time`)
  }

  const grownBy = (peakOf(receiver.pid) - peakBefore) / 1024 / 1024
  t.comment(`memory grew by ${grownBy.toFixed(1)} MiB`)
  t.ok(grownBy < 64, `memory grew by ${grownBy} MiB`)
  // At most one of each kind for an address.
  t.ok(receiver.log.length - linesBefore <= 2 * ADDRESSES, receiver.log.slice(linesBefore).join('\n'))
})
