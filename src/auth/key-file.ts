import { createHash, randomBytes } from 'node:crypto'
import { HalError, reasonOf } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import { UsageError } from '../usage-error.ts'
import { BYTES_32 } from './base64url.ts'

export const KEY_FILE = '/api-key'
/** A salted hash of each key that was in force before, one a line, the oldest first: `SALT HASH` in base64url. */
export const FORMER_FILE = '/api-key.former'
/** The salted hash of the key that was generated here, while nobody has used it. */
export const UNUSED_FILE = '/api-key.unused'
const KEY_MODE = 0o600
const KEY_BYTES = 32
const SALT_BYTES = 16
const GENERATED_KEY = new RegExp(`^${BYTES_32}$`)
/** A key of any origin, as a part of a regular expression. */
export const KEY_PATTERN = '[A-Za-z0-9._~-]{22,128}'
/** A key that was not generated here. Its line must be whole: a file that was cut off must not be taken for one. */
const OUTSIDE_KEY = new RegExp(`^${KEY_PATTERN}\\n$`)
/** Different characters in a key. Every token is an HMAC under the key, so its holder can try weak keys offline. */
const MIN_DIFFERENT = 12
/** Former keys that are refused. */
const MAX_FORMER = 16
/** The name of the credential in which systemd passes a key (systemd.exec(5), LoadCredential=). */
const CREDENTIAL = 'receiverd.api-key'

/** A new API key: 32 random bytes as base64url. */
export function generateKey(): string {
  return randomBytes(KEY_BYTES).toString('base64url')
}

/** A key that was chosen cannot be taken. The message is a clause about it. */
export class RefusedKey extends Error {}

/**
 * The key in the state directory; undefined if there is none.
 * @throws {HalError} if the file does not hold a key; errors of the system as they are.
 */
export async function readKey(state: Files): Promise<string | undefined> {
  const text = await state.readText(KEY_FILE)
  if (text === undefined) return undefined
  const key = text.trimEnd()
  if (!GENERATED_KEY.test(key) && !OUTSIDE_KEY.test(text))
    throw new HalError('UNREADABLE', 'the file does not contain an API key')
  return key
}

/** Stores a key durably. A power cut leaves the old key or the new one, whole. */
export async function writeKey(state: Files, key: string): Promise<void> {
  await state.writeAtomic(KEY_FILE, `${key}\n`, KEY_MODE)
}

/** Removes the key durably, and the memory of earlier ones: the next start makes a new one. */
export async function removeKey(state: Files): Promise<void> {
  await state.remove(KEY_FILE)
  await state.remove(FORMER_FILE)
}

/**
 * Replaces the key in the state directory durably.
 * @param current The present key, which is remembered; undefined if there is none.
 * @param chosen The new key; without it one is made.
 * @returns the new key.
 * @throws {RefusedKey} if the chosen one is not a key, or was in force before: its tokens would come back.
 */
export async function replaceKey(state: Files, current: string | undefined, chosen?: string): Promise<string> {
  if (chosen !== undefined && chosen === current) return chosen
  if (chosen !== undefined) await requireNewKey(state, chosen)
  const key = chosen ?? generateKey()
  if (current !== undefined) await rememberKey(state, current)
  try {
    await writeKey(state, key)
  } catch (error) {
    // It may be in place, and only not durable. Whoever asked does not get it, so nobody would hold the key in force.
    if (current !== undefined) await writeKey(state, current).catch(() => undefined)
    throw error
  }
  return key
}

/** @throws {RefusedKey} if `replaceKey` would refuse it. */
export async function requireNewKey(state: Files, key: string): Promise<void> {
  if (!OUTSIDE_KEY.test(`${key}\n`)) throw new RefusedKey('must be 22 to 128 characters of A-Z, a-z, 0-9 and ._~-')
  if (new Set(key).size < MIN_DIFFERENT)
    throw new RefusedKey(`must have at least ${MIN_DIFFERENT} different characters`)
  if (await isFormerKey(state, key)) throw new RefusedKey('must not be a key that this device had before')
}

async function isFormerKey(state: Files, key: string): Promise<boolean> {
  return (await formerKeys(state)).some(line => isHashOf(key, line))
}

/** Remembers durably that nobody has used a key since it was made. */
export async function markUnused(state: Files, key: string): Promise<void> {
  await state.writeAtomic(UNUSED_FILE, `${saltedHash(key)}\n`, KEY_MODE)
}

/** Whether nobody has used this key, as far as that was remembered; not if it was replaced since. */
export async function isMarkedUnused(state: Files, key: string): Promise<boolean> {
  return isHashOf(key, (await state.readLossless(UNUSED_FILE))?.trimEnd() ?? '')
}

/** Remembers durably that a key was in force, so that it is not taken again. */
export async function rememberKey(state: Files, key: string): Promise<void> {
  if (await isFormerKey(state, key)) return
  const lines = [...(await formerKeys(state)), saltedHash(key)].slice(-MAX_FORMER)
  await state.writeAtomic(FORMER_FILE, lines.map(line => `${line}\n`).join(''), KEY_MODE)
}

async function formerKeys(state: Files): Promise<readonly string[]> {
  return (await state.readLossless(FORMER_FILE))?.split('\n').filter(line => line !== '') ?? []
}

function saltedHash(key: string): string {
  return hashOf(key, randomBytes(SALT_BYTES).toString('base64url'))
}

function isHashOf(key: string, line: string): boolean {
  const [salt = ''] = line.split(' ')
  return line === hashOf(key, salt)
}

function hashOf(key: string, salt: string): string {
  return `${salt} ${createHash('sha256').update(`${salt}${key}`).digest('base64url')}`
}

/**
 * The key that systemd passes; undefined if it passes none.
 * @param folder `$CREDENTIALS_DIRECTORY`.
 * @throws {UsageError} if it is not a key.
 */
export async function readCredential(folder: string): Promise<string | undefined> {
  const text = await new Files(folder).readText(`/${CREDENTIAL}`).catch(error => {
    throw new UsageError(`the credential ${CREDENTIAL} cannot be read: ${reasonOf(error)}`)
  })
  if (text === undefined) return undefined
  const key = text.replace(/\n$/, '')
  if (OUTSIDE_KEY.test(`${key}\n`)) return key
  throw new UsageError(`the credential ${CREDENTIAL} is not a key: give 22 to 128 characters of A-Z, a-z, 0-9 and ._~-`)
}
