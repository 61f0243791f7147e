import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import mqtt, { type IConnackPacket, type IPublishPacket } from 'mqtt/lib/client'
import { hostAndPort } from '../../http/address.ts'
import { Complaint, type Log } from '../../log.ts'
import { causeOf } from '../client.ts'
import { CONNECT_MS } from '../connection.ts'
import { FrameLimit } from './frame-limit.ts'
import { retryMs, STEADY_MS } from './retry.ts'

// A CommonJS module, whose only export Node takes for a member.
const { default: MqttClient } = mqtt

export interface BrokerOptions {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
  /** Certificates (PEM) of its authority; undefined for those that Node knows. */
  readonly ca: string | undefined
  readonly user: string | undefined
  readonly password: string | undefined
  /** The broker disconnects another client with the same ID. */
  readonly clientId: string
  /** The topic that says whether this program is connected: `online` or `offline`. */
  readonly presence: string
  /** The topics to subscribe to. */
  readonly subscriptions: readonly string[]
  readonly received: (message: Received) => void
  /** Called before anything is published on a connection. */
  readonly connected: () => void
  /** Called before the last messages are published, which are only removals; at most twice. */
  readonly leaving: () => void
  readonly log: Log
  /** Returns a number from 0 to 1. */
  readonly random: () => number
  readonly signal: AbortSignal
}

export interface Received {
  readonly topic: string
  readonly text: string
  /** Whether the message is older than the subscription. */
  readonly isRetained: boolean
}

const ONLINE = 'online'
const OFFLINE = 'offline'
/** Limit on a packet from the broker in bytes: larger than any message on the subscribed topics. */
const MAX_PACKET_BYTES = 64 * 1024
/** Limit on a message in bytes, which a broker has room for. A longer message would end the connection, again and again. */
const MAX_MESSAGE_BYTES = 256 * 1024
/** Limit on messages of others that are being removed. */
const MAX_FOREIGN = 10_000
/** Bytes of a packet besides topic and message. */
const HEAD_BYTES = 16
/** Limit on unacknowledged messages, in each direction. */
const IN_FLIGHT = 16
const KEEP_ALIVE_S = 30
/** Milliseconds that the broker has to answer. */
const ANSWER_MS = 15_000
const MAX_RETRY_MS = 30_000
const MQTT_5 = 5
/** Reason codes of a broker that disconnects (MQTT 5.0 section 3.14.2.1). */
const TAKEN_OVER = 0x8e
const REASONS: Readonly<Record<number, string>> = {
  135: 'not authorized',
  137: 'server busy',
  139: 'server shutting down',
  141: 'keep alive timeout',
  149: 'packet too large',
  151: 'quota exceeded',
  152: 'administrative action',
}

/**
 * Keeps the latest message of each topic on a broker. What changes while the broker is away or slow is published once, in its
 * latest state.
 */
export class Broker {
  readonly #options: BrokerOptions
  readonly #complaint: Complaint
  /** The messages by their topics. An empty one is published again at each connection, like any other. */
  readonly #messages = new Map<string, string>()
  /** Topics of others, which are forgotten once the broker has removed their messages. */
  readonly #foreign = new Set<string>()
  /** Topics whose message the broker may not have. */
  readonly #unsent = new Set<string>()
  /** Whether a message was too long. This is logged once. */
  #isTooLong = false
  #wake: () => void = () => undefined

  constructor(options: BrokerOptions) {
    this.#options = options
    this.#complaint = new Complaint(options.log)
  }

  /** Has the broker keep a message; an empty one removes it there. */
  set(topic: string, text: string): void {
    if (this.#messages.get(topic) === text) return
    this.#messages.set(topic, text)
    this.#unsent.add(topic)
    this.#wake()
  }

  /**
   * Removes a message that somebody else has left.
   * @returns false if too many are being removed.
   */
  remove(topic: string): boolean {
    if (this.#messages.has(topic)) return true
    if (this.#foreign.size >= MAX_FOREIGN) return false
    this.#foreign.add(topic)
    this.set(topic, '')
    return true
  }

  /** Connects, again and again. Resolves when the signal is aborted and the broker has been told, or is still away. */
  async run(): Promise<void> {
    const { signal, random, host, port } = this.#options
    for (let failures = 0; ; failures++) {
      // Follows a connection that the signal did not end in order: nobody removes messages from the broker later.
      const isLast = signal.aborted
      const began = performance.now()
      try {
        return await this.#connection(isLast)
      } catch (error) {
        if (isLast || !signal.aborted)
          this.#complaint.say(`the broker ${hostAndPort(host, port)} is away: ${causeOf(error)}`)
        if (isLast) return
      }
      if (performance.now() - began > STEADY_MS) failures = 0
      await sleep(retryMs(failures, MAX_RETRY_MS, random), undefined, { signal }).catch(() => undefined)
    }
  }

  /**
   * One connection. Rejects when the connection ends, and resolves when the signal has ended it.
   * @param isLast Whether it is only for removals, within a time limit.
   */
  async #connection(isLast: boolean): Promise<void> {
    const { clientId, user, password, presence, received, signal, log, host, port } = this.#options
    /** The callers that wait for an answer from the broker. */
    const waiting = new Set<(error: Error) => void>()
    const over = new AbortController()
    const fail = (error: Error) => {
      over.abort(error)
      for (const reject of waiting) reject(error)
    }
    const within = <T>(task: Promise<T>): Promise<T> =>
      new Promise<T>((resolve, reject) => {
        const timer = setTimeout(() => refuse(unanswered()), ANSWER_MS)
        const settle = () => {
          clearTimeout(timer)
          waiting.delete(refuse)
        }
        const refuse = (error: Error) => {
          settle()
          reject(error)
        }
        // Before the check: on a connection that is over, the task fails as well, and nothing else handles that.
        task.then(result => {
          settle()
          resolve(result)
        }, refuse)
        if (over.signal.aborted) return refuse(over.signal.reason)
        waiting.add(refuse)
      })
    const client = new MqttClient(() => this.#socket(fail), {
      protocolVersion: MQTT_5,
      clientId,
      clean: true,
      keepalive: KEEP_ALIVE_S,
      // Each connection starts with nothing but the messages to publish.
      reconnectPeriod: 0,
      resubscribe: false,
      queueQoSZero: false,
      connectTimeout: ANSWER_MS,
      timerVariant: 'native',
      // The library's own log, which DEBUG turns on, contains the password.
      log: () => undefined,
      ...(user !== undefined && { username: user }),
      ...(password !== undefined && { password }),
      properties: { receiveMaximum: IN_FLIGHT, maximumPacketSize: MAX_PACKET_BYTES },
      will: { topic: presence, payload: Buffer.from(OFFLINE), qos: 1, retain: true },
    })
    client
      .on('error', fail)
      .on('disconnect', ({ reasonCode }) => fail(new Error(disconnection(reasonCode))))
      .on('close', () => fail(new Error('it closes the connection')))
      .on('message', (topic: string, payload: Buffer, { retain }: IPublishPacket) =>
        received({ topic, text: payload.toString(), isRetained: retain }),
      )
    const stop = () => {
      if (client.connected) this.#wake()
      else fail(new Error('stopped'))
    }
    signal.addEventListener('abort', stop)
    const deadline = isLast ? setTimeout(() => fail(unanswered()), ANSWER_MS) : undefined
    try {
      const { properties } = await within(new Promise<IConnackPacket>(resolve => client.once('connect', resolve)))
      log('info', `connected to the broker ${hostAndPort(host, port)}`)
      this.#complaint.end()
      this.#options.connected()
      // Every message is published again: the broker may have lost them.
      for (const topic of this.#messages.keys()) this.#unsent.add(topic)
      const publish = (topic: string, text: string) =>
        within(client.publishAsync(topic, text, { qos: 1, retain: true }))
      if (!isLast) await publish(presence, ONLINE)
      for (const topic of isLast ? [] : this.#options.subscriptions)
        await within(client.subscribeAsync(topic, { qos: 1, nl: true })).catch(error => {
          if (!isRefusal(error)) throw error
          log('warning', `the broker refuses a subscription to ${topic}: ${error.message}`)
        })
      const limits = {
        inFlight: Math.min(IN_FLIGHT, properties?.receiveMaximum ?? IN_FLIGHT),
        bytes: Math.min(MAX_MESSAGE_BYTES, (properties?.maximumPacketSize ?? Number.POSITIVE_INFINITY) - HEAD_BYTES),
      }
      await this.#publishAll(publish, limits, over.signal)
      await publish(presence, OFFLINE)
      await within(client.endAsync())
    } finally {
      clearTimeout(deadline)
      signal.removeEventListener('abort', stop)
      client.end(true)
    }
  }

  /**
   * Publishes all messages, and each new one. Rejects when the connection ends, and resolves when the signal is aborted and the
   * last messages are published.
   */
  async #publishAll(
    publish: (topic: string, text: string) => Promise<unknown>,
    limits: { readonly inFlight: number; readonly bytes: number },
    over: AbortSignal,
  ): Promise<void> {
    const { signal, log, leaving } = this.#options
    let active = 0
    let isLeaving = false
    let isRefused = false
    let failure: Error | undefined
    const send = async (topic: string, text: string) => {
      active++
      try {
        await publish(topic, text)
        if (this.#foreign.delete(topic)) this.#messages.delete(topic)
      } catch (error) {
        // The broker refuses this message, but the connection is fine. Further refusals are not logged.
        if (isRefusal(error)) {
          if (!isRefused) log('warning', `the broker refuses ${topic}, and maybe others: ${error.message}`)
          isRefused = true
        } else failure = error as Error
      }
      active--
      this.#wake()
    }
    const wake = () => this.#wake()
    over.addEventListener('abort', wake)
    for (;;) {
      if (signal.aborted && !isLeaving) {
        isLeaving = true
        leaving()
        for (const topic of this.#unsent) if (this.#messages.get(topic) !== '') this.#unsent.delete(topic)
      }
      if (failure) throw failure
      over.throwIfAborted()
      for (const topic of this.#unsent) {
        if (active >= limits.inFlight) break
        this.#unsent.delete(topic)
        const text = this.#messages.get(topic) ?? ''
        if (Buffer.byteLength(topic) + Buffer.byteLength(text) <= limits.bytes) send(topic, text)
        else if (!this.#isTooLong) {
          this.#isTooLong = true
          log('warning', `the message on ${topic}, and maybe others, has over ${limits.bytes} bytes, and is left out`)
        }
      }
      if (isLeaving && active === 0 && this.#unsent.size === 0) return
      await new Promise<void>(resolve => {
        this.#wake = resolve
      })
    }
  }

  /** @param fail Called if the broker sends more than it may. */
  #socket(fail: (error: Error) => void): Socket {
    const { host, port, isTls, ca } = this.#options
    const socket = isTls
      ? connectTls({
          host,
          port,
          // A name, not an address (RFC 6066 section 3).
          servername: isIP(host) === 0 ? host : '',
          ...(ca !== undefined && { ca }),
        })
      : connectTcp({ host, port })
    const limit = new FrameLimit(MAX_PACKET_BYTES)
    const timer = setTimeout(() => {
      fail(new Error(`no connection within ${CONNECT_MS / 1000} s`))
      socket.destroy()
    }, CONNECT_MS)
    socket.once(isTls ? 'secureConnect' : 'connect', () => clearTimeout(timer)).once('close', () => clearTimeout(timer))
    return socket.on('data', chunk => {
      if (limit.accepts(chunk)) return
      fail(new Error(`it sends a packet of more than ${MAX_PACKET_BYTES} bytes`))
      socket.destroy()
    })
  }
}

/** Whether the broker refused a request, with a reason code (MQTT 5.0 section 2.4). */
function isRefusal(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' && error.code >= 0x80
}

function unanswered(): Error {
  return new Error(`no answer within ${ANSWER_MS / 1000} s`)
}

function disconnection(reasonCode = 0): string {
  if (reasonCode === TAKEN_OVER) return 'another client has the same prefix, and has taken its place'
  return `it ends the connection (${REASONS[reasonCode] ?? reasonCode})`
}
