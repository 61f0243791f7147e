import { errorCode, HalError, isUnreadable, reasonOf } from '../../hal/errors.ts'
import type { Stop } from '../../hal/files/watcher.ts'
import { isSame, parseAddress } from '../../hal/format/ip.ts'
import type { Certificate, CertificateFiles } from '../../hal/os/certificate.ts'
import { Serial } from '../../hal/serial.ts'
import type { Originals } from '../../hal/transaction/originals.ts'
import type { Clock } from '../clock.ts'
import { CERTIFICATE_SETTLE_MS, MAX_CERTIFICATE_ADDRESSES, MAX_RENEWALS_PER_DAY, POLL_MS } from '../limits.ts'
import { Complaint, type Log } from '../log.ts'
import { addressesOf } from '../system/addresses.ts'
import { follow } from '../system/follow.ts'
import type { SystemStore } from '../system/store.ts'

export interface TlsOptions {
  readonly files: CertificateFiles
  readonly configuration: SystemStore
  readonly originals: Originals
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970: a clock that shows an earlier time is wrong. */
  readonly builtAt: number
  readonly log: Log
}

const DAY_MS = 86_400_000
/** Apple's systems refuse a server certificate that is valid for longer, whoever issued it (support.apple.com/103769). */
const VALID_DAYS = 825
/** How far back notBefore is dated, because the clock of this device, or of a client, may be wrong. */
const PAST_DAYS = 60
const RENEWED_BEFORE_DAYS = 90
/** For an owner's certificate, which is not renewed here. Those of public authorities are valid for 90 days or less. */
const WARNED_BEFORE_DAYS = 14
/** The same as a part of its lifetime, for one that is valid only for days. */
const WARNED_BEFORE_PART = 1 / 3
/**
 * The most milliseconds before a certificate that was set aside without success is set aside again: each time, files are written.
 * The pause is doubled each time.
 */
const MAX_ACQUITTED_MS = 3_600_000

/**
 * The certificate of the server in front, which terminates TLS for this service. The device makes one if there is none, and
 * renews it with the same key when a name or an address is missing from it, or when it is about to expire, but not during a
 * trial. A certificate that the device did not make is left alone.
 */
export class Tls {
  readonly #options: TlsOptions
  readonly #queue = new Serial()
  readonly #stops: Stop[] = []
  /** When the last certificates were made, by the monotonic clock. */
  readonly #made: number[] = []
  readonly #listeners: (() => void)[] = []
  #inForce: Certificate | undefined
  /** The digest of an owner's certificate that the server has not accepted. */
  #refused: string | undefined
  /** An owner's certificate that was not the only obstacle to the server's start; when, by the monotonic clock, and for how long. */
  #acquitted: { readonly digest: string; readonly at: number; readonly forMs: number } | undefined
  #settling: NodeJS.Timeout | undefined
  /** Why a certificate cannot be used. */
  readonly #complaint: Complaint
  /** Why the device's own certificate could not be renewed. */
  readonly #renewal: Complaint
  /** Why clients would reject the certificate in use. */
  readonly #objection: Complaint
  /** Why a factory reset would not remove the certificate. */
  readonly #oblivion: Complaint
  #isRemembered = false
  #isPollWaiting = false

  constructor(options: TlsOptions) {
    this.#options = options
    this.#complaint = new Complaint(options.log)
    this.#renewal = new Complaint(options.log)
    this.#objection = new Complaint(options.log)
    this.#oblivion = new Complaint(options.log)
  }

  /** The certificate that the server in front uses; undefined until it is known. */
  get certificate(): Certificate | undefined {
    return this.#inForce
  }

  /** Registers a function to call whenever the certificate changes. */
  readonly onChanged = (changed: () => void): void => {
    this.#listeners.push(changed)
  }

  /** Returns at once: making the first certificate must not delay the start. */
  start(): void {
    const { files, configuration, log } = this.#options
    // Someone who replaces the two files does so one after the other.
    const settle = () => {
      this.#settling ??= setTimeout(() => {
        this.#settling = undefined
        this.#poll()
      }, CERTIFICATE_SETTLE_MS).unref()
    }
    const poll = setInterval(() => this.#poll(), POLL_MS).unref()
    this.#stops.push(files.watch(settle), () => clearInterval(poll))
    this.#queue.run(() => files.recover()).catch(() => undefined)
    configuration.onKept(() => this.#poll())
    follow({
      configuration,
      derive: () => this.#names,
      apply: async () => this.#poll(),
      failure: 'the names of the device could not be determined',
      log,
    })
  }

  /** Resolves when nothing is being written. */
  async stop(): Promise<void> {
    for (const stop of this.#stops) stop()
    clearTimeout(this.#settling)
    await this.#queue.run(async () => undefined)
  }

  /**
   * Returns a certificate signing request (PKCS #10, in DER) for the installed key.
   * @param names Host names and IP addresses; by default those of the device.
   * @throws {HalError} if the key cannot be used.
   */
  request(names?: readonly string[]): Promise<Buffer> {
    return this.#queue.run(async () => {
      await this.#makeFirst()
      return this.#options.files.request(names ?? [...new Set(this.#names)])
    })
  }

  /**
   * Installs a certificate of an authority in place of the current one, durably.
   * @param chain The certificates in PEM.
   * @throws {RefusedCertificate} if it cannot be used; other errors if the system or the server refuses it. Then nothing has
   * changed.
   */
  install(chain: string): Promise<void> {
    return this.#queue.run(async () => {
      const { files, clock } = this.#options
      await this.#makeFirst()
      const pem = await files.accepted(chain, this.#isClockSet ? clock.now() : undefined)
      await this.#replace(() => files.putCertificate(pem))
    })
  }

  /**
   * Goes back to a certificate that the device makes: for the installed key if it is of the kind that the device makes, or else
   * for a new one.
   * @returns whether another certificate was installed.
   */
  restoreOwn(): Promise<boolean> {
    return this.#queue.run(async () => {
      const { files } = this.#options
      if ((await files.read().catch(() => undefined))?.isOwn) return false
      await this.#replace(async () => {
        await files.replaceForeignKey()
        await this.#make(undefined)
      })
      return true
    })
  }

  /** Makes the first key, in case a request comes right after the first start. */
  async #makeFirst(): Promise<void> {
    // An unusable certificate must not keep anybody from installing another.
    if (!this.#inForce) await this.#update().catch(() => undefined)
  }

  /** Writes a certificate and makes the server use it, or changes nothing. */
  async #replace(write: () => Promise<void>): Promise<void> {
    const { files, originals } = this.#options
    await originals.add([await files.original()])
    const previous = await files.capture()
    try {
      await write()
      await this.#update()
    } catch (error) {
      this.#refused = undefined
      await files.restore(previous)
      // The server may have exited.
      await files.reloadServer().catch(() => undefined)
      throw error
    }
  }

  #poll(): void {
    // A poll that is waiting will see this change, too.
    if (this.#isPollWaiting) return
    this.#isPollWaiting = true
    this.#queue
      .run(() => {
        this.#isPollWaiting = false
        return this.#update().catch(error => this.#replaceUnusable(error))
      })
      .catch(error => this.#complaint.say(`TLS: ${reasonOf(error)}; the server in front is left as it is`))
  }

  async #update(): Promise<void> {
    const { files, log } = this.#options
    let certificate = await files.read()
    if (!certificate || (certificate.isOwn && this.#needsRenewal(certificate)))
      certificate = await this.#renewed(certificate)
    if (certificate.isOwn) await this.#rememberOriginal()
    if (certificate.digest !== this.#inForce?.digest) {
      this.#refused = certificate.isOwn ? undefined : certificate.digest
      await files.reloadServer()
      this.#refused = undefined
      this.#inForce = certificate
      const whose = certificate.isOwn ? 'made by this device' : 'of the owner of this device'
      log('notice', `TLS: a certificate ${whose} is in force; clients pin its key by sha256//${certificate.pin}`)
      for (const changed of this.#listeners) changed()
    }
    this.#complaint.end()
    const objection = this.#objectionTo(certificate)
    if (objection) this.#objection.say(`TLS: the certificate of the owner of this device ${objection}`)
    else this.#objection.end()
  }

  /** Why clients refuse the certificate, or soon will, as a predicate. The device renews its own certificate in time. */
  #objectionTo({ isOwn, isForBrowsers, from, to }: Certificate): string | undefined {
    if (isOwn || !this.#isClockSet) return undefined
    const now = this.#options.clock.now()
    const day = (ms: number) => new Date(ms).toISOString().slice(0, 10)
    if (now < from) return `is not valid before ${day(from)}; clients refuse it`
    if (now >= to) return `expired on ${day(to)}; clients refuse it`
    if (now >= to - Math.min(WARNED_BEFORE_DAYS * DAY_MS, (to - from) * WARNED_BEFORE_PART))
      return `expires on ${day(to)}; clients refuse it from then on`
    return isForBrowsers ? undefined : 'has a key of a kind that browsers refuse: use P-256, P-384 or RSA'
  }

  /** Replaces an unusable pair, which must not lock everybody out of a device that has no other way in. */
  async #replaceUnusable(error: unknown): Promise<void> {
    const { files, clock, log } = this.#options
    const refused = errorCode(error) === 'COMMAND_FAILED' ? this.#refused : undefined
    const isRefused = refused !== undefined
    const isCulprit = isUnreadable(error) || (isRefused && !this.#isAcquitted(refused))
    if (!isCulprit || !(await files.setAside(clock.now(), isRefused))) throw error
    const reason = isRefused
      ? 'the server in front does not start with it'
      : `${reasonOf(error)}, so the server in front does not run`
    log('warning', `TLS: ${reason}: set aside as *.bad, and made again`)
    try {
      await this.#update()
    } catch (again) {
      // Something else keeps the server from running.
      if (isRefused) {
        const { digest, forMs = 0 } = this.#acquitted ?? {}
        const longer = digest === refused ? Math.min(2 * forMs, MAX_ACQUITTED_MS) : POLL_MS
        this.#acquitted = { digest: refused, at: performance.now(), forMs: longer }
        await files.putBack()
      }
      throw again
    }
  }

  /** A certificate is suspected again after a while, because it may keep the server from starting once nothing else does. */
  #isAcquitted(digest: string): boolean {
    return this.#acquitted?.digest === digest && performance.now() - this.#acquitted.at < this.#acquitted.forMs
  }

  /**
   * A lost address is no reason to renew the certificate: the address may come back. During a trial, no renewal is due: a browser
   * that was told to accept this certificate would refuse the next one, and the page in it could not confirm the change.
   */
  #needsRenewal({ from, to, covers }: Certificate): boolean {
    if (this.#options.configuration.isOnTrial) return false
    const now = this.#latest
    // While the clock is not set, a certificate of a later time knows better.
    const isTimely = (from <= now || !this.#isClockSet) && now < to - RENEWED_BEFORE_DAYS * DAY_MS
    return !isTimely || !this.#names.every(covers)
  }

  /** A new certificate, or the installed one if the storage refuses a new one: an old certificate is better than none. */
  async #renewed(previous: Certificate | undefined): Promise<Certificate> {
    let certificate = previous
    try {
      if (await this.#make(previous)) certificate = await this.#options.files.read()
      this.#renewal.end()
    } catch (error) {
      if (!previous) throw error
      this.#renewal.say(`TLS: the certificate could not be renewed: ${reasonOf(error)}`)
    }
    if (!certificate) throw new HalError('ABSENT', 'there is no certificate')
    return certificate
  }

  /** @returns false if too many were renewed: an address that comes and goes must not wear out the storage. */
  async #make(previous: Certificate | undefined): Promise<boolean> {
    const now = performance.now()
    const [first = 0] = this.#made
    // Without a certificate, nobody could connect at all.
    if (previous && this.#made.length >= MAX_RENEWALS_PER_DAY && now - first < DAY_MS) return false
    const { files } = this.#options
    await this.#rememberOriginal()
    const names = this.#withFormer(previous)
    const past = this.#latest - PAST_DAYS * DAY_MS
    const from = this.#isClockSet || !previous ? past : Math.max(past, previous.from)
    // The validity includes both its first and its last second (RFC 5280 §4.1.2.5).
    const to = from + VALID_DAYS * DAY_MS - 1_000
    await files.make({ commonName: names[0] ?? '', names, from, to })
    this.#made.push(now)
    this.#made.splice(0, this.#made.length - MAX_RENEWALS_PER_DAY)
    return true
  }

  /**
   * Records the original files for a factory reset. If the state directory refuses, each poll tries again: serving TLS comes
   * first.
   */
  async #rememberOriginal(): Promise<void> {
    if (this.#isRemembered) return
    const { files, originals } = this.#options
    try {
      await originals.add([await files.original()])
      this.#isRemembered = true
      this.#oblivion.end()
    } catch (error) {
      this.#oblivion.say(`TLS: a factory reset would not remove the certificate: ${reasonOf(error)}`)
    }
  }

  /** The time in milliseconds since 1970, or the latest time that has certainly passed. */
  get #latest(): number {
    return Math.max(this.#options.clock.now(), this.#options.builtAt)
  }

  get #isClockSet(): boolean {
    return this.#options.clock.now() >= this.#options.builtAt
  }

  /** The names, followed by former addresses: an address that comes and goes causes only one renewal. */
  #withFormer(previous: Certificate | undefined): readonly string[] {
    const names = this.#names
    const present = names.flatMap(name => parseAddress(name) ?? [])
    const former = (previous?.addresses ?? []).filter(text => {
      const address = parseAddress(text)
      return address && !present.some(other => isSame(other, address))
    })
    return [...names, ...former.slice(0, Math.max(0, MAX_CERTIFICATE_ADDRESSES - present.length))]
  }

  /** Names that clients use for the device: host name, multicast DNS name (RFC 6762 §3), and addresses. */
  get #names(): readonly string[] {
    const { configuration } = this.#options
    const hostname = configuration.value('hostname') ?? ''
    const addresses = addressesOf(configuration).slice(0, MAX_CERTIFICATE_ADDRESSES)
    return [hostname, `${hostname.split('.', 1)[0]}.local`, ...addresses]
  }
}
