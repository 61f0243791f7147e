import { isUnreadable, reasonOf } from '../../hal/errors.ts'
import type { Files } from '../../hal/files/files.ts'
import { reachable } from '../../hal/format/ip.ts'
import { CertificateFiles } from '../../hal/os/certificate.ts'
import type { System } from '../../hal/os/system.ts'
import { hostname } from '../../hal/settings/hostname.ts'
import { readIssuers, removeOwnIssuers } from '../auth/issuers.ts'
import { RefusedKey, readKey, replaceKey } from '../auth/key-file.ts'
import { issueToken, type TokenRequest } from '../auth/token.ts'
import { type Environment, readTlsPort } from '../config.ts'
import { HTTPS_PORT, pageAt } from '../http/address.ts'
import { readListening } from '../listening.ts'
import { CommandError } from './failure.ts'

/** Milliseconds for a command's own request to arrive. */
const PASSING_MS = 60_000

/** Returns the API key. @throws {CommandError} if there is none, or its file contains something else. */
export async function showKey(state: Files): Promise<string> {
  try {
    const key = await readKey(state)
    if (key !== undefined) return key
  } catch (error) {
    if (!isUnreadable(error)) throw error
    throw new CommandError(`cannot use the API key: ${error.message}; replace it with: receiverd key rotate`)
  }
  throw new CommandError(
    `there is no API key in ${state.root} yet; start the service once, or run: receiverd key rotate`,
  )
}

/**
 * Returns the API key, and how a client uses it with the certificate of this device.
 * @throws {CommandError} as `showKey`; also if the certificate is missing or cannot be used.
 */
export async function showAccess(state: Files, system: System, env: Environment): Promise<string> {
  const key = await showKey(state)
  const certificate = await new CertificateFiles(system).read().catch(error => {
    throw new CommandError(`cannot use the TLS certificate: ${reasonOf(error)}`)
  })
  if (!certificate) throw new CommandError('there is no TLS certificate on this device')
  const pin = `sha256//${certificate.pin}`
  const recorded = await readListening(system)
  if (recorded && recorded.tlsPort === undefined)
    throw new CommandError('the service does not serve TLS: RECEIVERD_TLS_PORT is not set')
  const port = recorded?.tlsPort ?? readTlsPort(env) ?? HTTPS_PORT
  const [address = await hostname(system).fallback()] = reachable(Object.values(system.addresses() ?? {}).flat())
  const url = `${pageAt(address, port, true)}api/v1/system`
  return `${key}

pin of the certificate's key:    ${pin}
fingerprint of the certificate:  ${certificate.fingerprint}

curl --insecure --pinnedpubkey '${pin}' -H 'Authorization: Bearer ${key}' ${url}`
}

/**
 * Replaces the API key, and returns the new one.
 * @param text The new key, on a line by itself. If omitted, one is generated.
 * @throws {CommandError} if the key is invalid, or was in force before.
 */
export async function rotateKey(state: Files, text?: string): Promise<string> {
  // A file that contains something else is what this command repairs.
  const current = await readKey(state).catch(error => {
    if (isUnreadable(error)) return undefined
    throw error
  })
  return replaceKey(state, current, text?.replace(/\r?\n$/, '')).catch(error => {
    if (error instanceof RefusedKey) throw new CommandError(`--key-file: the key ${error.message}`)
    throw error
  })
}

/**
 * Returns the issuers that a new API key leaves in force.
 * @param removesOwn Whether to remove those that clients of the API added. A running service accepts the old key for a
 *   moment longer, and an issuer that is added in that time stays.
 * @returns a sentence that names them; undefined if there are none.
 * @throws {CommandError} if they cannot be read or removed.
 */
export async function issuersThatStay(system: Files, removesOwn: boolean): Promise<string | undefined> {
  try {
    if (removesOwn) await removeOwnIssuers(system)
    const { issuers } = await readIssuers(system)
    const names = issuers.map(({ name, source }) => `${name} (${source})`)
    return names.length > 0 ? `these issuers stay, and their tokens are valid: ${names.join(', ')}` : undefined
  } catch (error) {
    const what = removesOwn ? 'removed' : 'listed'
    throw new CommandError(`the API key is replaced, but the issuers could not be ${what}: ${reasonOf(error)}`)
  }
}

/**
 * Makes a token from the current API key.
 * @param now Milliseconds since 1970.
 * @param builtAt When the program was built. An earlier `now` means that the clock is not set.
 * @throws {CommandError} if there is no key, or an expiry cannot be calculated.
 */
export async function makeToken(state: Files, request: TokenRequest, now: number, builtAt: number): Promise<string> {
  if (request.expiresInMs !== undefined && now < builtAt)
    throw new CommandError('the clock of this device is not set; set it, or make the token without --expires-in')
  return issueToken(await showKey(state), request, now).token
}

/**
 * Makes a token for one request to the service of this device, which soon expires in case another program is listening.
 * @param now and `builtAt` as for `makeToken`; while the clock is not set, the service accepts no expiry.
 */
export function passingToken(
  apiKey: string,
  request: Pick<TokenRequest, 'roles' | 'subject'>,
  now: number,
  builtAt: number,
): string {
  const expiresInMs = now < builtAt ? undefined : PASSING_MS
  return issueToken(apiKey, { ...request, expiresInMs }, now).token
}
