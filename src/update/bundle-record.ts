/** The files of a bundle: `bundle.part` until it is complete and checked, then `bundle`; and its record, `bundle.json`. */
import * as Type from 'typebox/type'
import { HalError } from '../../hal/errors.ts'
import type { Files } from '../../hal/files/files.ts'
import { parseJson } from '../json.ts'
import { schemaErrors } from '../validate.ts'
import { SOURCES } from './state.ts'

export const PART = '/bundle.part'
export const WHOLE = '/bundle'
const RECORD = '/bundle.json'
const MODE = 0o600

const BundleRecord = Type.Object({
  /** Identifies this upload: uploading the same bundle again gives it a new ETag. */
  etag: Type.String({ minLength: 1 }),
  source: Type.Enum([...SOURCES]),
  bytes: Type.Integer({ minimum: 1 }),
  /** Bytes received and synced to storage. */
  receivedBytes: Type.Integer({ minimum: 0 }),
  /** Whether the bundle is complete and passed the check. */
  isChecked: Type.Boolean(),
  /** Where the service fetches the rest, if it is to: the address with its query, and the server's ETag. */
  origin: Type.Optional(Type.Object({ url: Type.String({ minLength: 1 }), etag: Type.Optional(Type.String()) })),
})
export type BundleRecord = Readonly<Type.Static<typeof BundleRecord>>

/**
 * Returns the record of the stored bundle, or undefined if none is stored. Finishes a change that a power cut interrupted.
 * @throws {HalError} if the record is damaged, or the bundle is shorter than the record says.
 */
export async function readRecord(folder: Files): Promise<BundleRecord | undefined> {
  await folder.recover(RECORD)
  const text = await folder.readBytes(RECORD)
  if (text === undefined) return undefined
  const record = parsed(text)
  if (record.isChecked && (await folder.size(PART)) !== undefined) await folder.rename(PART, WHOLE.slice(1))
  const size = (await folder.size(record.isChecked ? WHOLE : PART)) ?? 0
  if (size < record.receivedBytes) throw new HalError('UNREADABLE', 'the file is shorter than it was')
  return record
}

export async function writeRecord(folder: Files, record: BundleRecord): Promise<void> {
  await folder.writeAtomic(RECORD, `${JSON.stringify(record)}\n`, MODE)
}

/** Removes a bundle, complete or partial. The record goes first: without a record, the next start removes the rest. */
export async function removeBundle(folder: Files): Promise<void> {
  for (const path of [RECORD, PART, WHOLE]) await folder.remove(path)
}

function parsed(bytes: Buffer): BundleRecord {
  try {
    const value = parseJson(bytes)
    if (schemaErrors(BundleRecord, value, '').length === 0) return value as BundleRecord
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  throw new HalError('UNREADABLE', 'the record of the bundle is damaged')
}
