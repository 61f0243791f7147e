import { createHash, randomBytes } from 'node:crypto'
import { HalError, reasonOf } from '../../hal/errors.ts'
import { Files } from '../../hal/files/files.ts'
import { UsageError } from '../usage-error.ts'
import { BYTES_32 } from './base64url.ts'

export const KEY_FILE = '/api-key'
/** Salted hashes of the keys that were in force before, oldest first, one per line: `SALT HASH` in base64url. */
export const FORMER_FILE = '/api-key.former'
/** The salted hash of a key that was generated here and that nobody has used yet. */
export const UNUSED_FILE = '/api-key.unused'
const KEY_MODE = 0o600
const KEY_BYTES = 32
const SALT_BYTES = 16
const GENERATED_KEY = new RegExp(`^${BYTES_32}$`)
/** Any API key, as part of a regular expression. */
export const KEY_PATTERN = '[A-Za-z0-9._~-]{22,128}'
/** A key that was not generated here. Its line must be complete, so that a truncated file does not count as a key. */
const OUTSIDE_KEY = new RegExp(`^${KEY_PATTERN}\\n$`)
/** Minimum number of different characters. Every token is an HMAC under the key, so its holder can try weak keys offline. */
const MIN_DIFFERENT = 12
/** Number of former keys that are remembered and refused. */
const MAX_FORMER = 16
/** The name of the credential in which systemd passes a key (systemd.exec(5), LoadCredential=). */
const CREDENTIAL = 'receiverd.api-key'

/** Returns a new API key: 32 random bytes in base64url. */
export function generateKey(): string {
  return randomBytes(KEY_BYTES).toString('base64url')
}

/** A chosen key was refused. The message is a clause about the key. */
export class RefusedKey extends Error {}

/**
 * Reads the key in the state directory; undefined if it has none.
 * @throws {HalError} if the file does not contain a key; system errors as they are.
 */
export async function readKey(state: Files): Promise<string | undefined> {
  const text = await state.readText(KEY_FILE)
  if (text === undefined) return undefined
  const key = text.trimEnd()
  if (!GENERATED_KEY.test(key) && !OUTSIDE_KEY.test(text))
    throw new HalError('UNREADABLE', 'the file does not contain an API key')
  return key
}

/** Stores a key durably. A power cut leaves either the old key or the new one intact. */
export async function writeKey(state: Files, key: string): Promise<void> {
  await state.writeAtomic(KEY_FILE, `${key}\n`, KEY_MODE)
}

/** Durably removes the key and the record of former ones. The next start makes a new key. */
export async function removeKey(state: Files): Promise<void> {
  await state.remove(KEY_FILE)
  await state.remove(FORMER_FILE)
}

/**
 * Replaces the key in the state directory durably.
 * @param current The current key; undefined if there is none.
 * @param chosen The new key. If omitted, one is generated.
 * @param isStored Whether the current key was ever stored. Only then it is remembered.
 * @returns the new key.
 * @throws {RefusedKey} if the chosen key is invalid, or was in force before: its tokens would become valid again.
 */
export async function replaceKey(
  state: Files,
  current: string | undefined,
  chosen?: string,
  isStored = true,
): Promise<string> {
  if (chosen !== undefined && chosen === current) return chosen
  if (chosen !== undefined) await requireNewKey(state, chosen)
  const key = chosen ?? generateKey()
  if (current !== undefined && isStored) await rememberKey(state, current)
  try {
    await writeKey(state, key)
  } catch (error) {
    // The key may be in place, only not durable. The caller does not get it, so nobody would hold the key in force.
    if (current !== undefined) await writeKey(state, current).catch(() => undefined)
    throw error
  }
  return key
}

/** @throws {RefusedKey} if `replaceKey` would refuse the key. */
export async function requireNewKey(state: Files, key: string): Promise<void> {
  if (!OUTSIDE_KEY.test(`${key}\n`)) throw new RefusedKey('must be 22 to 128 characters of A-Z, a-z, 0-9 and ._~-')
  if (new Set(key).size < MIN_DIFFERENT)
    throw new RefusedKey(`must have at least ${MIN_DIFFERENT} different characters`)
  if (await isFormerKey(state, key)) throw new RefusedKey('must not be a key that this device had before')
}

async function isFormerKey(state: Files, key: string): Promise<boolean> {
  return (await formerKeys(state)).some(line => isHashOf(key, line))
}

/** Durably records that nobody has used a key since it was generated. */
export async function markUnused(state: Files, key: string): Promise<void> {
  await state.writeAtomic(UNUSED_FILE, `${saltedHash(key)}\n`, KEY_MODE)
}

/** Reports whether this key is recorded as unused; false if it has been replaced since. */
export async function isMarkedUnused(state: Files, key: string): Promise<boolean> {
  const line = await state.readLossless(UNUSED_FILE)
  return line !== undefined && isHashOf(key, line.trimEnd())
}

/** Durably records that a key was in force, so that it is not accepted again. */
export async function rememberKey(state: Files, key: string): Promise<void> {
  if (await isFormerKey(state, key)) return
  const lines = [...(await formerKeys(state)), saltedHash(key)].slice(-MAX_FORMER)
  await state.writeAtomic(FORMER_FILE, lines.map(line => `${line}\n`).join(''), KEY_MODE)
}

/**
 * Reports whether a key is the only one since the first start or the last factory reset.
 * @param key Undefined if it cannot be read: any former key is taken for another one.
 */
export async function isOnlyKey(state: Files, key: string | undefined): Promise<boolean> {
  return (await formerKeys(state)).every(line => key !== undefined && isHashOf(key, line))
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
 * Reads the key that systemd passes; undefined if it passes none.
 * @param folder `$CREDENTIALS_DIRECTORY`.
 * @throws {UsageError} if the credential is not a key.
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
