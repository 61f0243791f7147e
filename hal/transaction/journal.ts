import { HalError } from '../errors.ts'
import type { Image } from '../files/disk.ts'
import type { Files } from '../files/files.ts'

const FILE = '/journal'
/** Pre-images may hold what only root may read. */
const MODE = 0o600
/** Bytes of a journal: the largest pre-images of a few files, in base64. */
const MAX_BYTES = 64 * 1024 * 1024

/** How to undo the change of one setting. */
export interface Undo {
  readonly setting: string
  readonly previous: unknown
  readonly next: unknown
  /** What stood in its files. */
  readonly images: readonly Image[]
}

/** The undo of a change that is under way, on the disk from before its first write until it is over. */
export class Journal {
  readonly #state: Files
  /** Whether there may be one, also of an earlier run. */
  #isOpen = true

  constructor(state: Files) {
    this.#state = state
  }

  /** Makes the undo durable. */
  async open(undos: readonly Undo[]): Promise<void> {
    this.#isOpen = true
    await this.#state.writeAtomic(FILE, JSON.stringify(undos, encodeBytes), MODE)
  }

  /** The change is over: kept, or undone. Durable when it returns. */
  async close(): Promise<void> {
    if (this.#isOpen) await this.#state.remove(FILE)
    this.#isOpen = false
  }

  /**
   * The undo that was left behind; undefined where none was.
   * @throws {HalError} where it cannot be told.
   */
  async read(): Promise<readonly Undo[] | undefined> {
    await this.#state.recover(FILE)
    const text = await this.#state.readText(FILE, MAX_BYTES)
    if (text === undefined) return undefined
    try {
      return JSON.parse(text, decodeBytes)
    } catch {
      throw new HalError('UNREADABLE', 'the file is not a journal')
    }
  }
}

/** By now JSON.stringify has called Buffer's own toJSON, which spends four characters on a byte. */
function encodeBytes(name: string, value: unknown): unknown {
  if (name !== 'bytes' || typeof value !== 'object' || value === null || !('data' in value)) return value
  return Buffer.from(value.data as number[]).toString('base64')
}

function decodeBytes(name: string, value: unknown): unknown {
  return name === 'bytes' && typeof value === 'string' ? Buffer.from(value, 'base64') : value
}
