import { createPublicKey } from 'node:crypto'
import { algorithmOf, type GivenIssuer } from '../auth/issuer.ts'
import { Refused } from '../cli/service-client.ts'
import { UsageError } from '../usage-error.ts'
import type { Member } from './access.ts'
import { type DeviceAnswer, type DeviceClient, Unanswered } from './client.ts'
import type { OwnFile } from './files.ts'
import type { Result } from './outcome.ts'

/**
 * The public key of an issuer, in PEM (SPKI).
 * @param file Has that key, or the private one that belongs to it.
 * @throws {UsageError} for any other, and for a private one that others may read.
 */
export function publicKeyOf({ text, isPrivate }: OwnFile, path: string): string {
  if (text.includes('PRIVATE KEY') && !isPrivate)
    throw new UsageError(`${path} has a private key, and others may read it: chmod 600 ${path}`)
  const key = keyIn(text)
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

/** Has a device accept the tokens of an issuer, in place of one with the same name. */
export async function addIssuer(member: Member, name: string, issuer: GivenIssuer): Promise<Result> {
  await sendTwice(member.client(), 'PUT', name, { ...issuer, roles: [...issuer.roles] })
  return { state: 'done' }
}

/** Has a device accept them no more. */
export async function removeIssuer(member: Member, name: string): Promise<Result> {
  try {
    await sendTwice(member.client(), 'DELETE', name)
    return { state: 'done' }
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return { state: 'unchanged' }
    throw error
  }
}

/** Again if the answer was lost: the second time changes nothing more. */
async function sendTwice(
  client: DeviceClient,
  method: string,
  name: string,
  body?: GivenIssuer,
): Promise<DeviceAnswer> {
  const send = () => client.send(method, `/issuers/${name}`, body)
  return send().catch(error => {
    if (error instanceof Unanswered) return send()
    throw error
  })
}
