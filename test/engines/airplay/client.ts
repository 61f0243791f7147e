import { generateKeyPairSync, randomBytes, randomInt, randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import * as fairplay from './fairplay.ts'
import { sha } from './keys.ts'
import { MirrorStream } from './mirror-stream.ts'
import { type ClientOptions, DEFAULTS } from './options.ts'
import { type Identity, pairSetup, pairSetupPin, pairVerify } from './pairing.ts'
import { decodeDictionary, encodePlist, isDictionary, type PlistDictionary } from './plist.ts'
import { OCTETS, type RtspAnswer, RtspConnection } from './rtsp.ts'
import { TimingServer } from './timing.ts'

/** The steps to a mirrored screen, in order. */
export const MILESTONES = ['info', 'pair', 'fairplay', 'setup', 'stream', 'record', 'mirroring'] as const
export type Milestone = (typeof MILESTONES)[number]
/** `refused`: the receiver does not admit this device. `busy`: another device is connected. */
export type Outcome = Milestone | 'refused' | 'busy'
/** Send TEARDOWN; close the connections; reset them; or leave them open. */
export type Departure = 'teardown' | 'close' | 'reset' | 'hang'

interface Events {
  /** A request was answered. */
  step: [name: string, details: Readonly<Record<string, unknown>>]
  connected: [local: string]
  /** The receiver answered with an empty body (`refused`) or with 409 (`busy`). */
  refused: [reason: 'refused' | 'busy']
  admitted: []
  mirroring: []
  /** The receiver closed the control connection. */
  ended: [reason: string]
  left: [how: Departure]
}

const FEEDBACK_MS = 2_000
/** How long to wait for the receiver to close its side. */
const CLOSE_MS = 500
/**
 * After a device has left, UxPlay 1.71 may close its socket a second time some 100 ms later, and that is then the next
 * device's. No person is that fast.
 */
const APART_MS = 500
/** Stream type of a mirrored screen. */
const MIRRORING = 110

/** A device that mirrors colour bars to an AirPlay receiver. */
export class AirPlayClient extends EventEmitter<Events> {
  readonly #options: ClientOptions & typeof DEFAULTS
  readonly #identity: Identity
  /** Identifies the session in RTSP requests. */
  readonly #url: string
  #rtsp: RtspConnection | undefined
  #timing: TimingServer | undefined
  #stream: MirrorStream | undefined
  #feedback: NodeJS.Timeout | undefined
  /** The shared secret from pairing. */
  #secret: Buffer | undefined
  #streamId = 0n
  #dataPort = 0
  #reached = 0
  #isLeaving = false

  constructor(options: ClientOptions) {
    super()
    this.#options = { ...DEFAULTS, ...options }
    this.#identity = options.identity ?? generateKeyPairSync('ed25519')
    this.#url = `rtsp://${options.host}/${randomInt(2 ** 31)}`
  }

  get frames(): number {
    return this.#stream?.frames ?? 0
  }

  /** How often the receiver asked for the time. */
  get timingRequests(): number {
    return this.#timing?.requests ?? 0
  }

  /** Continues from the last milestone reached up to `until`. After a refusal, call it again to ask again. */
  async advance(until: Milestone = 'mirroring'): Promise<Outcome> {
    while (this.#reached <= MILESTONES.indexOf(until)) {
      const milestone = MILESTONES[this.#reached] ?? until
      const obstacle = await this.#take(milestone)
      if (obstacle) {
        this.emit('refused', obstacle)
        return obstacle
      }
      this.#reached += 1
    }
    return until
  }

  /** Stops answering the receiver's timing requests, like a device out of range. */
  muteTiming(): void {
    this.#timing?.mute()
  }

  /** Stops sending pictures. */
  freeze(): void {
    this.#stream?.freeze()
  }

  /** Resolves with the reason once the control connection is closed. */
  async ended(): Promise<string> {
    const rtsp = this.#connection()
    return rtsp.closed ?? new Promise(resolve => rtsp.once('closed', resolve))
  }

  /** @throws if UxPlay ends instead of answering; the device has left then, too. */
  async leave(how: Departure = 'teardown'): Promise<void> {
    const rtsp = this.#rtsp
    this.#isLeaving = true
    clearInterval(this.#feedback)
    if (how !== 'hang') {
      this.#stream?.freeze()
      // One time in fifty, UxPlay crashes before it has answered.
      if (how === 'teardown' && rtsp?.closed === undefined) await this.#teardown().catch(() => undefined)
      await this.#close(how === 'reset')
    }
    this.emit('left', how)
  }

  async #close(isReset: boolean): Promise<void> {
    const rtsp = this.#rtsp
    if (isReset) this.#stream?.reset()
    else this.#stream?.end()
    if (rtsp?.closed === undefined) {
      const closed = rtsp && once(rtsp, 'closed', { signal: AbortSignal.timeout(CLOSE_MS) }).catch(() => undefined)
      if (isReset) rtsp?.reset()
      else rtsp?.end()
      await closed
    }
    this.#timing?.close()
    if (this.#stream) await sleep(APART_MS)
  }

  async #take(milestone: Milestone): Promise<'refused' | 'busy' | undefined> {
    switch (milestone) {
      case 'info':
        return this.#connect()
      case 'pair':
        return this.#pair()
      case 'fairplay':
        return this.#agreeOnKey()
      case 'setup':
        return this.#setup()
      case 'stream':
        return this.#setupStream()
      case 'record':
        this.#step('record', await this.#request('RECORD', this.#url))
        return undefined
      case 'mirroring':
        return this.#mirror()
    }
  }

  async #connect(): Promise<'busy' | undefined> {
    const rtsp = await RtspConnection.open(this.#options)
    this.#rtsp = rtsp
    this.emit('connected', rtsp.local)
    rtsp.once('closed', reason => {
      clearInterval(this.#feedback)
      this.#stream?.freeze()
      if (!this.#isLeaving) this.emit('ended', reason)
    })
    const answer = await this.#request('GET', '/info')
    if (answer.status !== 200) {
      this.#step('info', answer)
      rtsp.destroy()
      return 'busy'
    }
    const { name, deviceID, features } = decodeDictionary(answer.body)
    this.#step('info', answer, { name, deviceID, features: `0x${BigInt(Number(features)).toString(16)}` })
    return undefined
  }

  async #pair(): Promise<undefined> {
    const { pairing, pin, deviceId } = this.#options
    const rtsp = this.#connection()
    if (pin !== undefined) {
      const status = await pairSetupPin(rtsp, this.#identity, deviceId ?? '', pin)
      this.emit('step', 'pair-setup-pin', { status })
    }
    if (pairing === 'none') return
    const showsKey = pairing === 'full' && pin === undefined
    const receiverKey = showsKey ? await pairSetup(rtsp, this.#identity) : undefined
    const { secret, ...seen } = await pairVerify(rtsp, this.#identity, receiverKey)
    this.#secret = secret
    this.emit('step', 'pair-verify', seen)
  }

  async #agreeOnKey(): Promise<undefined> {
    for (const message of [fairplay.SETUP, fairplay.HANDSHAKE])
      this.#step('fp-setup', await this.#request('POST', '/fp-setup', message, OCTETS))
  }

  async #setup(): Promise<'refused' | undefined> {
    const { host, localAddress, deviceId, name, model, timingProtocol } = this.#options
    this.#timing ??= await TimingServer.open(host, localAddress)
    const body = {
      et: 32,
      ekey: fairplay.ENCRYPTED_KEY,
      eiv: randomBytes(16),
      isScreenMirroringSession: true,
      ...(deviceId === undefined ? {} : { deviceID: deviceId, macAddress: deviceId }),
      model,
      name,
      osBuildVersion: '21A329',
      osName: 'iPhone OS',
      osVersion: '17.0',
      sessionUUID: randomUUID().toUpperCase(),
      sourceVersion: '695.12',
      statsCollectionEnabled: false,
      timingPort: this.#timing.port,
      timingProtocol,
    }
    const answer = await this.#request('SETUP', this.#url, encodePlist(body))
    this.#step('setup', answer)
    if (answer.status !== 200 || answer.body.length === 0) return 'refused'
    this.emit('admitted')
    return undefined
  }

  async #setupStream(): Promise<undefined> {
    // 63 bits: in a property list, the top bit of a 64-bit integer is its sign.
    this.#streamId = randomBytes(8).readBigUInt64BE() >> 1n
    const streams = [{ type: MIRRORING, streamConnectionID: this.#streamId }]
    const answer = await this.#request('SETUP', this.#url, encodePlist({ streams }))
    const reply: PlistDictionary = answer.body.length > 0 ? decodeDictionary(answer.body) : {}
    this.#step('stream', answer, reply)
    const stream = Array.isArray(reply.streams) ? reply.streams[0] : undefined
    this.#dataPort = isDictionary(stream) ? Number(stream.dataPort) : 0
  }

  async #mirror(): Promise<undefined> {
    const { hasVideo, hasFeedback } = this.#options
    if (hasFeedback) this.#feedback = setInterval(() => this.#sendFeedback(), FEEDBACK_MS)
    if (!hasVideo) return
    const key = this.#secret ? sha('sha512', fairplay.KEY, this.#secret).subarray(0, 16) : fairplay.KEY
    this.#stream = await MirrorStream.open({ ...this.#options, port: this.#dataPort, id: this.#streamId, key })
    this.emit('mirroring')
  }

  #sendFeedback(): void {
    // A closed connection is reported by `ended`.
    this.#request('POST', '/feedback').catch(() => undefined)
  }

  async #teardown(): Promise<void> {
    const bodies = [...(this.#stream ? [{ streams: [{ type: MIRRORING }] }] : []), {}]
    for (const body of bodies) this.#step('teardown', await this.#request('TEARDOWN', this.#url, encodePlist(body)))
  }

  #request(method: string, url: string, body?: Buffer, type?: string): Promise<RtspAnswer> {
    return this.#connection().request(method, url, body, type)
  }

  #step(name: string, { status, reason, body }: RtspAnswer, details: object = {}): void {
    this.emit('step', name, { status, reason, bytes: body.length, ...details })
  }

  #connection(): RtspConnection {
    if (!this.#rtsp) throw new Error('not connected')
    return this.#rtsp
  }
}
