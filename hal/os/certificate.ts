import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  X509Certificate,
} from 'node:crypto'
import { isIP } from 'node:net'
import { basename } from 'node:path'
import { errorCode, HalError, isUnreadable, reasonOf } from '../errors.ts'
import type { Image } from '../files/image.ts'
import type { Stop } from '../files/watcher.ts'
import { CERTIFICATE_BLOCK, type CertificateRequest, pinOf, selfSigned, signingRequest } from '../format/certificate.ts'
import type { Undo } from '../setting.ts'
import type { System } from './system.ts'
import { unitStates } from './unit-state.ts'

const FOLDER = '/etc/receiverd/tls'
const CERTIFICATE = `${FOLDER}/certificate.pem`
const KEY = `${FOLDER}/key.pem`
const KEY_MODE = 0o600
const CERTIFICATE_MODE = 0o644
/** The server that terminates TLS with these files. */
const SERVER = 'nginx.service'
/** The issuer of the certificates that the device makes. */
const ORGANIZATION = 'receiverd'
const OWN = new RegExp(`^O=${ORGANIZATION}$`, 'm')
/** OpenSSL's name for P-256. */
const CURVE = 'prime256v1'
const SERIAL_BYTES = 15
const PRIVATE_KEY = /-----BEGIN [^-]*PRIVATE KEY-----/
const OTHER_BLOCK = /-----BEGIN (?!CERTIFICATE-----)/
/** The curves of keys that every browser accepts, by OpenSSL's names. Chromium lacks P-521, Ed25519, Ed448 and RSA-PSS keys. */
const CURVES: readonly string[] = [CURVE, 'secp384r1']
/** Debian's default for OpenSSL, which applies to nginx too. */
const SECURITY_LEVEL = 2
/** Stands in for a setting's name in the undo of the original pair. */
const ORIGINAL = 'certificate'
/** Limit on the certificates of an uploaded chain. Public authorities' chains have three or four. */
const MAX_CHAIN = 8
/** id-kp-serverAuth and anyExtendedKeyUsage (RFC 5280 §4.2.1.12). */
const SERVER_USAGES = ['1.3.6.1.5.5.7.3.1', '2.5.29.37.0']
/** How far in the future an uploaded certificate may begin: its authority's clock may be ahead. */
const MAX_AHEAD_MS = 86_400_000
/** Milliseconds allowed for replacing both files by hand. */
const REPLACED_MS = 60_000

export interface Certificate {
  /** Base64 of the SHA-256 of its public key (RFC 7469 §2.4), the same after a renewal. */
  readonly pin: string
  /** The SHA-256 of the whole certificate, in hexadecimal with colons, as browsers show it. */
  readonly fingerprint: string
  /** Base64 of the SHA-256 of the file, including the chain. */
  readonly digest: string
  /** Whether the device made it. */
  readonly isOwn: boolean
  /** Whether browsers accept the kind of its key. */
  readonly isForBrowsers: boolean
  /** Milliseconds since 1970. `to` is the earliest expiry in the chain. */
  readonly from: number
  readonly to: number
  /** The IP addresses that it is valid for. */
  readonly addresses: readonly string[]
  /** Whether it is valid for a host name, or for an IP address. */
  readonly covers: (name: string) => boolean
}

/** A certificate followed by its chain, and its key without a passphrase, both in PEM. */
export interface Pair {
  readonly certificate: string
  readonly key: string
}

/** A certificate that cannot replace the current one. The message is a clause: why, and what would be accepted. */
export class RefusedCertificate extends HalError {
  constructor(reason: string, options?: ErrorOptions) {
    super('UNREADABLE', reason, options)
  }
}

/** The certificate of this device and its private key, made by the device or installed by its owner. */
export class CertificateFiles {
  readonly #system: System
  /** The files that were last set aside. */
  #aside: readonly string[] = []

  constructor(system: System) {
    this.#system = system
  }

  /**
   * The installed certificate; undefined if there is none, or if the device made it and its key is missing.
   * @throws {HalError} if it cannot be used, saying why.
   */
  async read(): Promise<Certificate | undefined> {
    const text = await this.#text(CERTIFICATE, 'the certificate')
    if (text === undefined) return undefined
    const [x509, ...issuers] = chainIn(text)
    const isOwn = x509.issuer === x509.subject && OWN.test(x509.subject)
    const key = await this.#readKey()
    if (!key && isOwn) return undefined
    if (!key) throw new HalError('UNREADABLE', 'the certificate has no key')
    // Whatever browsers think of it, it may serve other clients.
    await requireLoadable(x509, text, key)
    return {
      pin: pinOf(x509.publicKey),
      fingerprint: x509.fingerprint256,
      digest: createHash('sha256').update(text).digest('base64'),
      isOwn,
      isForBrowsers: isForBrowsers(key),
      from: Date.parse(x509.validFrom),
      to: Math.min(...[x509, ...issuers].map(({ validTo }) => Date.parse(validTo))),
      addresses: Array.from(x509.subjectAltName?.matchAll(/IP Address:([^,]+)/g) ?? [], ([, address = '']) => address),
      covers: name => (isIP(name) ? x509.checkIP(name) : x509.checkHost(name, { subject: 'never' })) !== undefined,
    }
  }

  /** Checks a pair before it is installed. @throws {HalError} saying why it cannot be used. */
  static async requireUsable({ certificate, key }: Pair): Promise<void> {
    await requireUsable(chainIn(certificate)[0], certificate, parseKey(key))
  }

  /**
   * Installs a pair durably, or leaves the one in place. If the power fails between the two writes, the key does not match the
   * certificate.
   */
  async put({ certificate, key }: Pair): Promise<void> {
    const previous = await this.capture()
    try {
      await this.#system.writeAtomic(KEY, key, KEY_MODE)
      await this.putCertificate(certificate)
    } catch (error) {
      await this.restore(previous).catch(() => undefined)
      throw error
    }
  }

  /**
   * Returns a certificate signing request (PKCS #10, in DER) for the installed key.
   * @param names Host names and IP addresses.
   * @throws {HalError} if there is no key, or no certificate for it would be accepted.
   */
  async request(names: readonly string[]): Promise<Buffer> {
    const key = await this.#readKey()
    if (!key) throw new HalError('ABSENT', 'the device has no key yet')
    requireForBrowsers(key)
    return signingRequest({ key, names })
  }

  /**
   * Checks a chain in PEM that is to replace the certificate. @returns its certificates without any other text.
   * @param now Milliseconds since 1970; undefined if the time is not known.
   * @throws {RefusedCertificate} if it is not for the installed key, or if clients or the server would refuse it.
   */
  async accepted(text: string, now: number | undefined): Promise<string> {
    const key = await this.#readKey()
    if (!key) throw new HalError('ABSENT', 'the device has no key yet')
    const chain = certificatesIn(text)
    const [leaf] = chain
    if (!leaf.checkPrivateKey(key))
      throw new RefusedCertificate(
        'the first certificate is not for the key of this device; send one that was made from its request',
      )
    requireChain(chain, now)
    const pem = chain.map(each => each.toString()).join('')
    await requireUsable(leaf, pem, key).catch(error => {
      throw new RefusedCertificate(`${reasonOf(error)}; send one that TLS servers can use`, { cause: error })
    })
    return pem
  }

  /** Installs a certificate for the existing key, durably and in one step. */
  async putCertificate(pem: string): Promise<void> {
    await this.#system.writeAtomic(CERTIFICATE, pem, CERTIFICATE_MODE)
  }

  /** Captures the installed files for `restore`. */
  async capture(): Promise<readonly Image[]> {
    return Promise.all([KEY, CERTIFICATE].map(path => this.#system.capture(path)))
  }

  async restore(images: readonly Image[]): Promise<void> {
    for (const image of images) await this.#system.restore(image)
  }

  /** Replaces the key by a new one, unless it is of the kind that the device makes. `make` then makes a certificate for it. */
  async replaceForeignKey(): Promise<void> {
    const key = await this.#readKey().catch(error => {
      if (!isUnreadable(error)) throw error
      return undefined
    })
    // In one step: were the old key removed first, storage that is full could lose it.
    if (key?.asymmetricKeyDetails?.namedCurve !== CURVE) await this.#writeNewKey()
  }

  /** Makes a certificate for the installed key, or else for a new one. @throws {HalError} if the installed key cannot be used. */
  async make(request: Pick<CertificateRequest, 'commonName' | 'names' | 'from' | 'to'>): Promise<void> {
    const key = (await this.#readKey()) ?? (await this.#makeKey())
    if (key.asymmetricKeyDetails?.namedCurve !== CURVE)
      throw new HalError('UNREADABLE', 'the certificate is missing, and its key is not one that the device makes')
    const pem = selfSigned({ ...request, key, organization: ORGANIZATION, serial: randomBytes(SERIAL_BYTES) })
    await this.#system.writeAtomic(CERTIFICATE, pem, CERTIFICATE_MODE)
  }

  /** An undo for a factory reset: it restores the installed files, or removes them if the device made the certificate. */
  async original(): Promise<Undo> {
    const { isOwn = false } = (await this.read().catch(() => undefined)) ?? {}
    const images = await Promise.all(
      [CERTIFICATE, KEY].map(path => (isOwn ? absent(path) : this.#system.capture(path))),
    )
    return { setting: ORIGINAL, previous: null, next: null, images }
  }

  /**
   * Whether a retried factory reset must leave these files alone, because the owner has since installed a certificate for the
   * key that the reset could not remove.
   * @param setting As in `original`.
   */
  async needs(setting: string, paths: readonly string[]): Promise<boolean> {
    if (setting !== ORIGINAL || paths.includes(CERTIFICATE)) return false
    const present = await this.read().catch(() => undefined)
    return present?.isOwn === false
  }

  /** An undo for a factory reset that removes a pair that was set aside: its key may be the owner's. */
  get removalOfSetAside(): Undo {
    const images = [CERTIFICATE, KEY].map(path => absent(`${path}.bad`))
    return { setting: 'certificate set aside', previous: null, next: null, images }
  }

  /** Finishes or discards a write that a power cut interrupted. */
  async recover(): Promise<void> {
    await this.#system.recover(CERTIFICATE, KEY)
  }

  watch(changed: () => void): Stop {
    return this.#system.watch(`${FOLDER}/*`, changed)
  }

  /** Makes the server load the installed files; starts it if it is waiting for them. @throws {HalError} if it refuses them. */
  async reloadServer(): Promise<void> {
    await this.#system.run(['systemctl', 'reload-or-restart', SERVER])
  }

  /** Restores the pair that was set aside, because the server does not run with the new pair either. */
  async putBack(): Promise<void> {
    // Only what was just set aside: another *.bad may be older than the installed file.
    for (const path of this.#aside) await this.#system.rename(`${path}.bad`, basename(path))
    this.#aside = []
  }

  /**
   * Renames a pair to *.bad if it keeps the server from running, so that `make` makes a new one. A usable key stays.
   * @param now Milliseconds since 1970.
   * @param isRefused Whether only the server refuses the pair: then a start must have failed.
   * @returns whether the pair was set aside.
   */
  async setAside(now: number, isRefused: boolean): Promise<boolean> {
    const files = [CERTIFICATE, KEY]
    const times = await Promise.all(files.map(path => this.#system.modifiedAt(path)))
    // If the clock is wrong, a file may be dated in the future.
    if (times.some(ms => ms !== undefined && Math.abs(now - ms) < REPLACED_MS)) return false
    const { state = '', hasJob } = (await unitStates(this.#system, [SERVER])).get(SERVER) ?? {}
    // With a job, it may be waiting for the network. Without one, `activating` means that it waits for its next attempt.
    if (hasJob || !['failed', 'activating', ...(isRefused ? [] : ['inactive'])].includes(state)) return false
    const key = await this.#readKey().catch(() => undefined)
    const bad = key?.asymmetricKeyDetails?.namedCurve === CURVE ? [CERTIFICATE] : files
    const isThere = await Promise.all(bad.map(path => this.#system.exists(path)))
    this.#aside = bad.filter((_, n) => isThere[n])
    for (const path of this.#aside) await this.#system.rename(path, `${basename(path)}.bad`)
    return true
  }

  async #text(path: string, what: string): Promise<string | undefined> {
    try {
      return await this.#system.readText(path)
    } catch (error) {
      // The service runs as root, but may not read files of other users.
      if (errorCode(error) === 'EACCES') throw new HalError('UNREADABLE', `${what} must belong to root`)
      throw isUnreadable(error) ? new HalError(error.code, error.message.replace('the file', what)) : error
    }
  }

  async #readKey(): Promise<KeyObject | undefined> {
    const text = await this.#text(KEY, 'the key')
    return text === undefined ? undefined : parseKey(text)
  }

  async #makeKey(): Promise<KeyObject> {
    // A power cut must not leave the old certificate beside the new key.
    await this.#system.remove(CERTIFICATE)
    return this.#writeNewKey()
  }

  async #writeNewKey(): Promise<KeyObject> {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: CURVE })
    await this.#system.writeAtomic(KEY, privateKey.export({ type: 'pkcs8', format: 'pem' }), KEY_MODE)
    return privateKey
  }
}

function absent(path: string): Image {
  return { path, entry: { kind: 'absent' } }
}

function isForBrowsers({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean {
  return asymmetricKeyType === 'rsa' || CURVES.includes(asymmetricKeyDetails?.namedCurve ?? '')
}

function requireForBrowsers(key: KeyObject): void {
  if (!isForBrowsers(key))
    throw new HalError('UNREADABLE', 'browsers refuse a key of this kind: use P-256, P-384 or RSA')
}

/** As `requireLoadable`, for a pair that is not in place yet. @throws {HalError} also if browsers would refuse the key. */
async function requireUsable(leaf: X509Certificate, certificate: string, key: KeyObject): Promise<void> {
  requireForBrowsers(key)
  await requireLoadable(leaf, certificate, key)
}

/**
 * Loads a pair into OpenSSL as the server does: OpenSSL refuses short keys and weak signatures, and the server would not start
 * with them.
 * @param leaf The first certificate.
 * @param certificate The whole text of its file.
 * @throws {HalError} if the two do not belong together, or OpenSSL refuses them.
 */
async function requireLoadable(leaf: X509Certificate, certificate: string, key: KeyObject): Promise<void> {
  if (!leaf.checkPrivateKey(key))
    throw new HalError('UNREADABLE', 'the key does not belong to the first certificate of its file')
  // Loaded only once there is a certificate, because it takes memory and time.
  const { createSecureContext } = await import('node:tls')
  try {
    const pem = key.export({ type: 'pkcs8', format: 'pem' })
    createSecureContext({ cert: certificate, key: pem, ciphers: `DEFAULT@SECLEVEL=${SECURITY_LEVEL}` })
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('::').at(-1) : ''
    throw new HalError('UNREADABLE', `the certificate or its key cannot be used for TLS: ${reason}`)
  }
}

type Chain = readonly [leaf: X509Certificate, ...issuers: X509Certificate[]]

/**
 * The certificates of an uploaded chain.
 * @throws {RefusedCertificate} if there are none or too many, or if the text has anything else in PEM.
 */
function certificatesIn(text: string): Chain {
  if (PRIVATE_KEY.test(text))
    throw new RefusedCertificate(
      'there is a private key in it, which has left its owner and should be replaced; send certificates alone',
    )
  const count = text.split('-----BEGIN ').length - 1
  if (count === 0 || OTHER_BLOCK.test(text))
    throw new RefusedCertificate(
      'it is not a chain of certificates in PEM; send “-----BEGIN CERTIFICATE-----” blocks alone',
    )
  if (count > MAX_CHAIN) throw new RefusedCertificate(`it has ${count} certificates; send at most ${MAX_CHAIN}`)
  try {
    return chainIn(text)
  } catch (error) {
    throw new RefusedCertificate(`${reasonOf(error)}; send certificates as their authority has made them`, {
      cause: error,
    })
  }
}

/** @throws {RefusedCertificate} if clients would refuse the chain, by whatever name they reach the device. */
function requireChain(chain: Chain, now: number | undefined): void {
  const [leaf] = chain
  if (leaf.subjectAltName === undefined)
    throw new RefusedCertificate(
      'the first certificate has no subjectAltName, without which clients refuse it; send one with the names of this device',
    )
  const { keyUsage } = leaf
  if (keyUsage && !SERVER_USAGES.some(usage => keyUsage.includes(usage)))
    throw new RefusedCertificate(
      'the first certificate is not for servers; send one with the key usage serverAuth, or without any',
    )
  chain.slice(1).forEach((issuer, at) => {
    const issued = chain[at]
    if (!issued?.checkIssued(issuer) || !issued.verify(issuer.publicKey))
      throw new RefusedCertificate(
        `certificate ${at + 1} was not issued by the next; send the one of this device first, and each issuer after the one it issued`,
      )
  })
  if (now === undefined) return
  for (const [at, { validFrom, validTo }] of chain.entries()) {
    if (Date.parse(validTo) <= now)
      throw new RefusedCertificate(`certificate ${at + 1} expired on ${dayOf(validTo)}; send a chain that is valid now`)
    if (Date.parse(validFrom) > now + MAX_AHEAD_MS)
      throw new RefusedCertificate(
        `certificate ${at + 1} is not valid before ${dayOf(validFrom)}; send a chain that is valid now`,
      )
  }
}

function dayOf(date: string): string {
  return new Date(date).toISOString().slice(0, 10)
}

/** The certificates of a file, the device's first. @throws {HalError} if one of them is not a certificate. */
function chainIn(text: string): Chain {
  const blocks = text.match(CERTIFICATE_BLOCK) ?? []
  const [leaf, ...issuers] = parse('the certificate', () => blocks.map(block => new X509Certificate(block)))
  if (!leaf || blocks.length !== text.split('-----BEGIN CERTIFICATE-----').length - 1)
    throw new HalError('UNREADABLE', 'the certificate, or one of its chain, is not valid PEM')
  return [leaf, ...issuers]
}

function parseKey(text: string): KeyObject {
  return parse('the key', () => createPrivateKey(text))
}

function parse<T>(what: string, make: () => T): T {
  try {
    return make()
  } catch {
    throw new HalError('UNREADABLE', `${what} is not valid PEM, or has a passphrase`)
  }
}
