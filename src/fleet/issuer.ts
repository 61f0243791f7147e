import { createPublicKey } from 'node:crypto'
import { algorithmOf, type GivenIssuer } from '../auth/issuer.ts'
import { Refused } from '../cli/service-client.ts'
import { UsageError } from '../usage-error.ts'
import type { Member } from './access.ts'
import { Silent, Unanswered } from './client.ts'
import type { OwnFile } from './files.ts'
import type { Result } from './outcome.ts'

/** The labels of blocks in PEM (RFC 7468), except the curve's name, which OpenSSL writes before a key. */
const LABELS = /-----BEGIN (?!EC PARAMETERS-----)([^-]*)-----/g
const KEYS: readonly string[] = ['PUBLIC KEY', 'PRIVATE KEY', 'EC PRIVATE KEY']

/**
 * The public key of an issuer, in PEM (SPKI).
 * @param file A file with only that key, or only its private key.
 * @throws {UsageError} for anything else, and for a private one that others may read.
 */
export function publicKeyOf({ text, isPrivate }: OwnFile, path: string): string {
  const labels = Array.from(text.matchAll(LABELS), ([, label = '']) => label)
  if (labels.some(label => label.endsWith('PRIVATE KEY')) && !isPrivate)
    throw new UsageError(`${path} has a private key, and others may read it: chmod 600 ${path}`)
  if (labels.length > 1)
    throw new UsageError(`${path} has more than one key or certificate: give the issuer's key alone`)
  // The key of a certificate is that of a device, not of an issuer.
  if (labels[0] === 'CERTIFICATE') throw new UsageError(`${path} has a certificate: give the issuer's key`)
  const key = KEYS.includes(labels[0] ?? '') ? keyIn(text) : undefined
  if (!key || !algorithmOf(key)) throw new UsageError(`${path} has no Ed25519 or P-256 key in PEM without a passphrase`)
  return key.export({ type: 'spki', format: 'pem' }).toString()
}

function keyIn(pem: string) {
  try {
    return createPublicKey(pem)
  } catch {
    return undefined
  }
}

/** Makes a device accept the tokens of an issuer, in place of those of an issuer with the same name. */
export async function addIssuer(member: Member, name: string, issuer: GivenIssuer): Promise<Result> {
  const client = member.client()
  await twice(() => client.send('PUT', `/issuers/${name}`, { ...issuer, roles: [...issuer.roles] }))
  return { state: 'done' }
}

/** Makes a device refuse the tokens of an issuer. */
export async function removeIssuer(member: Member, name: string): Promise<Result> {
  const client = member.client()
  return twice(async isAgain => {
    try {
      await client.send('DELETE', `/issuers/${name}`)
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 404) throw error
      // The first request may have removed it.
      if (!isAgain) return { state: 'unchanged', note: `there is no issuer ${name}` }
    }
    return { state: 'done' }
  })
}

/** Sends a request, and repeats it if the answer was lost: that changes nothing more. It is not repeated after a timeout. */
function twice<T>(send: (isAgain: boolean) => Promise<T>): Promise<T> {
  return send(false).catch(error => {
    if (error instanceof Unanswered && !(error instanceof Silent)) return send(true)
    throw error
  })
}
