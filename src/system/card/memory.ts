import { Check } from 'typebox/schema'
import * as Type from 'typebox/type'
import { HalError, isUnreadable } from '../../../hal/errors.ts'
import type { Files } from '../../../hal/files/files.ts'
import type { Given } from './receiver-txt.ts'

/** It may hold the API key and a password. */
const MODE = 0o600
const FILE = '/card'
/** The memory after a factory reset that the image has carried out, until something is taken (build/image/initramfs/). */
const AFTER_RESET = '/card.reset'
/** It holds receiver.txt twice, each character as up to six, and 16 issuers. */
const MAX_BYTES = 384 * 1024

/** Texts by names. */
const texts = Type.Object({}, { additionalProperties: Type.String() })
const schema = Type.Object(
  {
    given: texts,
    isDue: Type.Boolean(),
    stillDue: Type.Optional(Type.Array(Type.String())),
    taken: Type.Optional(Type.Object({ digests: texts, commentedOut: Type.Optional(Type.String()) })),
  },
  { additionalProperties: false },
)

/** The device's memory of its card. */
export interface Memory {
  /** Everything that the card ever gave, the latest value of each: a factory reset goes back to it. */
  readonly given: Given
  /** Whether that is to be applied, because a factory reset has put everything else back. */
  readonly isDue: boolean
  /** The names of it that are left to apply, because their interface was not there yet; undefined for all. */
  readonly stillDue?: readonly string[] | undefined
  /** Files that were applied, but may still be on the card, because the power failed or the card cannot be written. */
  readonly taken?: Taken | undefined
}

export interface Taken {
  /** Base64 of the SHA-256 of each file, by its name. */
  readonly digests: Readonly<Record<string, string>>
  /** The text that replaces receiver.txt. */
  readonly commentedOut?: string | undefined
}

const NOTHING: Memory = { given: {}, isDue: false }

/** @throws {HalError} if the file does not hold it. */
export async function remembered(state: Files): Promise<Memory> {
  await state.recover(FILE)
  const text = await state.readText(FILE, MAX_BYTES)
  if (text !== undefined) return memoryIn(text)
  const kept = await state.readText(AFTER_RESET, MAX_BYTES)
  return kept === undefined ? NOTHING : { ...memoryIn(kept), isDue: true }
}

/** Durable when it returns. */
export async function remember(state: Files, memory: Memory): Promise<void> {
  const isNothing = Object.keys(memory.given).length === 0 && !memory.taken
  if (isNothing) await state.remove(FILE)
  else await state.writeAtomic(FILE, JSON.stringify(memory), MODE)
  await state.remove(AFTER_RESET)
}

/** For a factory reset: the settings from the card are applied again at the next start, or forgotten. May be repeated. */
export async function resetCard(state: Files, isForgotten: boolean): Promise<void> {
  const memory = await remembered(state).catch(error => {
    if (isUnreadable(error)) return NOTHING
    throw error
  })
  await remember(state, {
    ...memory,
    stillDue: undefined,
    ...(isForgotten ? { given: {}, isDue: false } : { isDue: true }),
  })
}

function memoryIn(text: string): Memory {
  const value = parse(text)
  if (!Check(schema, value)) throw new HalError('UNREADABLE', 'its shape is unknown')
  return value as Memory
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new HalError('UNREADABLE', 'it is not JSON')
  }
}
