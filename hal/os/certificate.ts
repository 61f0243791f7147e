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
import { errorCode, HalError, isUnreadable } from '../errors.ts'
import type { Image } from '../files/image.ts'
import type { Stop } from '../files/watcher.ts'
import { type CertificateRequest, selfSigned } from '../format/certificate.ts'
import type { Undo } from '../setting.ts'
import type { System } from './system.ts'

const FOLDER = '/etc/receiverd/tls'
const CERTIFICATE = `${FOLDER}/certificate.pem`
const KEY = `${FOLDER}/key.pem`
const KEY_MODE = 0o600
const CERTIFICATE_MODE = 0o644
/** Terminates TLS with these files. */
const SERVER = 'nginx.service'
/** The issuer of the certificates that are made here. */
const ORGANIZATION = 'receiverd'
const OWN = new RegExp(`^O=${ORGANIZATION}$`, 'm')
/** P-256, as OpenSSL calls it. */
const CURVE = 'prime256v1'
const SERIAL_BYTES = 15
const BLOCK = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g
/** The curves that browsers take for a server's key, as OpenSSL calls them. */
const CURVES: readonly string[] = [CURVE, 'secp384r1', 'secp521r1']
/** Debian's default for OpenSSL, which it sets for nginx, too. */
const SECURITY_LEVEL = 2
/** Stands in place of a setting for the pair that was there first. */
const ORIGINAL = 'certificate'
/** Milliseconds that somebody may take to replace both files. */
const REPLACED_MS = 60_000

export interface Certificate {
  /** Base64 of the SHA-256 of its public key (RFC 7469 §2.4), the same after a renewal. */
  readonly pin: string
  /** The SHA-256 of the whole certificate, in hexadecimal with colons, as browsers show it. */
  readonly fingerprint: string
  /** Base64 of the SHA-256 of the file, including the chain. */
  readonly digest: string
  /** Whether it was made here. */
  readonly isOwn: boolean
  /** Milliseconds since 1970. */
  readonly from: number
  readonly to: number
  /** The IP addresses in it. */
  readonly addresses: readonly string[]
  /** Whether it is valid for a host name, or for an IP address. */
  readonly covers: (name: string) => boolean
}

/** Both in PEM; the certificate is followed by its chain, and the key has no passphrase. */
export interface Pair {
  readonly certificate: string
  readonly key: string
}

/** The certificate of this device and its private key: made here, or put in place by the owner of the device. */
export class CertificateFiles {
  readonly #system: System
  /** The files that were set aside last. */
  #aside: readonly string[] = []

  constructor(system: System) {
    this.#system = system
  }

  /**
   * The certificate in place; undefined if there is none, or if it is one of our own without its key.
   * @throws {HalError} if it cannot be used, saying why.
   */
  async read(): Promise<Certificate | undefined> {
    const text = await this.#text(CERTIFICATE, 'the certificate')
    if (text === undefined) return undefined
    const x509 = leafOf(text)
    const isOwn = x509.issuer === x509.subject && OWN.test(x509.subject)
    const key = await this.#readKey()
    if (!key && isOwn) return undefined
    if (!key) throw new HalError('UNREADABLE', 'the certificate has no key')
    await requireUsable(x509, text, key)
    return {
      pin: createHash('sha256')
        .update(x509.publicKey.export({ type: 'spki', format: 'der' }))
        .digest('base64'),
      fingerprint: x509.fingerprint256,
      digest: createHash('sha256').update(text).digest('base64'),
      isOwn,
      from: Date.parse(x509.validFrom),
      to: Date.parse(x509.validTo),
      addresses: Array.from(x509.subjectAltName?.matchAll(/IP Address:([^,]+)/g) ?? [], ([, address = '']) => address),
      covers: name => (isIP(name) ? x509.checkIP(name) : x509.checkHost(name, { subject: 'never' })) !== undefined,
    }
  }

  /** Checks a pair that is to be put in place. @throws {HalError} saying why it cannot be used. */
  static async requireUsable({ certificate, key }: Pair): Promise<void> {
    await requireUsable(leafOf(certificate), certificate, parseKey(key))
  }

  /** Puts a pair in place, durably. If the power fails in between, the two do not belong together. */
  async put({ certificate, key }: Pair): Promise<void> {
    await this.#system.writeAtomic(KEY, key, KEY_MODE)
    await this.#system.writeAtomic(CERTIFICATE, certificate, CERTIFICATE_MODE)
  }

  /** Makes a certificate with the key in place, or with a new one. @throws {HalError} if that key cannot be used. */
  async make(request: Pick<CertificateRequest, 'commonName' | 'names' | 'from' | 'to'>): Promise<void> {
    const key = (await this.#readKey()) ?? (await this.#makeKey())
    if (key.asymmetricKeyDetails?.namedCurve !== CURVE)
      throw new HalError('UNREADABLE', 'the certificate is missing, and its key is not one that the device makes')
    const pem = selfSigned({ ...request, key, organization: ORGANIZATION, serial: randomBytes(SERIAL_BYTES) })
    await this.#system.writeAtomic(CERTIFICATE, pem, CERTIFICATE_MODE)
  }

  /** The files to be put back by a factory reset: those in place, or none if the certificate was made here. */
  async original(): Promise<Undo> {
    const { isOwn = false } = (await this.read().catch(() => undefined)) ?? {}
    const images = await Promise.all(
      [CERTIFICATE, KEY].map(path => (isOwn ? absent(path) : this.#system.capture(path))),
    )
    return { setting: ORIGINAL, previous: null, next: null, images }
  }

  /**
   * Whether a factory reset that is tried again must leave these files alone: the owner has put another certificate in
   * place since, for the key that the reset could not remove.
   * @param setting As in `original`.
   */
  async needs(setting: string, paths: readonly string[]): Promise<boolean> {
    if (setting !== ORIGINAL || paths.includes(CERTIFICATE)) return false
    const present = await this.read().catch(() => undefined)
    return present?.isOwn === false
  }

  /** Undoes setting a pair aside, for a factory reset: its key may be the owner's. */
  get removalOfSetAside(): Undo {
    const images = [CERTIFICATE, KEY].map(path => absent(`${path}.bad`))
    return { setting: 'certificate set aside', previous: null, next: null, images }
  }

  /** Removes what a power cut left behind. */
  async recover(): Promise<void> {
    await this.#system.recover(CERTIFICATE, KEY)
  }

  watch(changed: () => void): Stop {
    return this.#system.watch(`${FOLDER}/*`, changed)
  }

  /** Makes the server use the files in place; starts it if it is waiting for them. @throws {HalError} if it refuses. */
  async reloadServer(): Promise<void> {
    await this.#system.run(['systemctl', 'reload-or-restart', SERVER])
  }

  /** Puts back the pair that was set aside, because the server does not run with another pair either. */
  async putBack(): Promise<void> {
    // A *.bad may be older than the file in place.
    for (const path of this.#aside) await this.#system.rename(`${path}.bad`, basename(path))
    this.#aside = []
  }

  /**
   * Sets aside an unusable pair if it keeps the server from running, so that `make` makes another: its files become *.bad.
   * A usable key stays.
   * @param now Milliseconds since 1970.
   * @returns whether it did.
   */
  async setAside(now: number): Promise<boolean> {
    const files = [CERTIFICATE, KEY]
    const times = await Promise.all(files.map(path => this.#system.modifiedAt(path)))
    // If the clock is wrong, a file may be dated in the future.
    if (times.some(ms => ms !== undefined && Math.abs(now - ms) < REPLACED_MS)) return false
    const state = await this.#system.run(['systemctl', 'show', '--property=ActiveState,SubState', '--value', SERVER])
    if (!/^(failed|auto-restart|dead)$/m.test(state)) return false
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
      // The service runs as root, but without the right to read files of other users.
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
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: CURVE })
    await this.#system.writeAtomic(KEY, privateKey.export({ type: 'pkcs8', format: 'pem' }), KEY_MODE)
    return privateKey
  }
}

function absent(path: string): Image {
  return { path, entry: { kind: 'absent' } }
}

/**
 * Has OpenSSL load a pair as the server in front does: it refuses short keys and weak signatures, and the server would then
 * not start.
 * @param leaf The first certificate.
 * @param certificate All of its file.
 * @throws {HalError} if the two do not belong together, OpenSSL refuses them, or clients would refuse the curve.
 */
async function requireUsable(leaf: X509Certificate, certificate: string, key: KeyObject): Promise<void> {
  if (!leaf.checkPrivateKey(key))
    throw new HalError('UNREADABLE', 'the key does not belong to the first certificate of its file')
  const curve = key.asymmetricKeyDetails?.namedCurve
  if (curve !== undefined && !CURVES.includes(curve))
    throw new HalError(
      'UNREADABLE',
      `the key is on the curve ${curve}, which clients refuse: use P-256, P-384 or P-521`,
    )
  // Not loaded before there is a certificate: it takes memory, and time.
  const { createSecureContext } = await import('node:tls')
  try {
    const pem = key.export({ type: 'pkcs8', format: 'pem' })
    createSecureContext({ cert: certificate, key: pem, ciphers: `DEFAULT@SECLEVEL=${SECURITY_LEVEL}` })
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('::').at(-1) : ''
    throw new HalError('UNREADABLE', `the certificate or its key cannot be used for TLS: ${reason}`)
  }
}

/** The first certificate of a file. @throws {HalError} if it, or one of the chain after it, is not a certificate. */
function leafOf(text: string): X509Certificate {
  const blocks = text.match(BLOCK) ?? []
  const [leaf] = parse('the certificate', () => blocks.map(block => new X509Certificate(block)))
  if (!leaf || blocks.length !== text.split('-----BEGIN CERTIFICATE-----').length - 1)
    throw new HalError('UNREADABLE', 'the certificate, or one of its chain, is not valid PEM')
  return leaf
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
