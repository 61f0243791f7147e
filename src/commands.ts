import { isUnreadable } from '../hal/errors.ts'
import type { Files } from '../hal/files/files.ts'
import { generateKey, readKey, writeKey } from './auth/api-key.ts'
import { mint } from './auth/jwt.ts'
import type { TokenRequest } from './cli.ts'
import { CommandError } from './failure.ts'

/** The API key. @throws {CommandError} if there is none, or its file contains something else. */
export async function showKey(state: Files): Promise<string> {
  try {
    const key = await readKey(state)
    if (key !== undefined) return key
  } catch (error) {
    if (!isUnreadable(error)) throw error
    throw new CommandError(`cannot use the API key: ${error.message}; replace it with: receiverd key rotate`)
  }
  throw new CommandError('there is no API key yet; start the service once, or run: receiverd key rotate')
}

/** Replaces the API key, and returns the new one. */
export async function rotateKey(state: Files): Promise<string> {
  const key = generateKey()
  await writeKey(state, key)
  return key
}

/**
 * A token of the current API key.
 * @param now Milliseconds since 1970.
 * @param builtAt An earlier time than this cannot be right.
 * @throws {CommandError} if there is no key, or an expiry cannot be calculated.
 */
export async function makeToken(
  state: Files,
  { roles, expiresInMs, subject }: TokenRequest,
  now: number,
  builtAt: number,
): Promise<string> {
  if (expiresInMs !== undefined && now < builtAt)
    throw new CommandError('the clock of this device is not set; set it, or make the token without --expires-in')
  const iat = Math.floor(now / 1000)
  const exp = expiresInMs === undefined ? undefined : iat + expiresInMs / 1000
  return mint(await showKey(state), { roles, iat, exp, sub: subject })
}
