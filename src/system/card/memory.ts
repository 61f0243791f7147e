import { Check } from 'typebox/schema'
import * as Type from 'typebox/type'
import { HalError, isUnreadable } from '../../../hal/errors.ts'
import type { Files } from '../../../hal/files/files.ts'
import type { Given } from './receiver-txt.ts'

/** The file may hold the API key and a password. */
const MODE = 0o600
const FILE = '/card'
/** What replaces the file after a factory reset by the image, until it is written again (build/image/initramfs/). */
const AFTER_RESET = '/card.reset'
/** The file holds receiver.txt twice, with up to six bytes per character, and 16 issuers. */
const MAX_BYTES = 384 * 1024

/** Texts by name. */
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

/** What the device remembers of its card. */
export interface Memory {
  /** Everything that the card ever gave, with the latest value of each: a factory reset returns to it. */
  readonly given: Given
  /** Whether `given` must be applied, because a factory reset has restored everything else. */
  readonly isDue: boolean
  /** The names in `given` that remain to be applied, because they failed or their interface was missing; undefined for all. */
  readonly stillDue?: readonly string[] | undefined
  /** Files that were applied but may still be on the card, because the power failed or the card cannot be written. */
  readonly taken?: Taken | undefined
}

export interface Taken {
  /** SHA-256 of each file in base64, by file name. */
  readonly digests: Readonly<Record<string, string>>
  /** The text that replaces receiver.txt. */
  readonly commentedOut?: string | undefined
}

const NOTHING: Memory = { given: {}, isDue: false }

/** Reads the memory. @throws {HalError} if the file does not hold it. */
export async function remembered(state: Files): Promise<Memory> {
  await state.recover(FILE)
  const text = await state.readText(FILE, MAX_BYTES)
  if (text !== undefined) return memoryIn(text)
  const kept = await state.readText(AFTER_RESET, MAX_BYTES)
  return kept === undefined ? NOTHING : { ...memoryIn(kept), isDue: true }
}

/** Stores the memory durably. */
export async function remember(state: Files, memory: Memory): Promise<void> {
  const isNothing = Object.keys(memory.given).length === 0 && !memory.taken
  if (isNothing) await state.remove(FILE)
  else await state.writeAtomic(FILE, JSON.stringify(memory), MODE)
  await state.remove(AFTER_RESET)
}

/** For a factory reset: has the settings from the card applied again at the next start, or forgets them. Can be repeated. */
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
  const memory = value as Memory
  const { given } = memory
  // In the memory of an earlier version, an address has no link. If the card gave Wi-Fi, it is for that.
  if (given.address === undefined || given['wifi-ssid'] === undefined) return memory
  return { ...memory, given: { ...given, link: given.link ?? 'wlan' } }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new HalError('UNREADABLE', 'it is not JSON')
  }
}
