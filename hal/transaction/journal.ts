import { Check } from 'typebox/schema'
import * as Type from 'typebox/type'
import { HalError, reasonOf } from '../errors.ts'
import type { Files } from '../files/files.ts'
import type { PathContent } from '../files/image.ts'
import { MAX_REPLACEABLE_BYTES } from '../files/replace.ts'
import type { Undo } from '../setting.ts'

/** A journal may hold content that only root may read. */
const MODE = 0o600
/** Increase it when a journal of an earlier version could be misunderstood. */
const VERSION = 1
/** Limit on the line in bytes. At worst, if it is all brackets, it takes 30 times as much memory once parsed. */
const MAX_LINE_BYTES = 512 * 1024
/** Limit on all files of a change together, in bytes. */
const MAX_CONTENT_BYTES = 4 * MAX_REPLACEABLE_BYTES

const strict = { additionalProperties: false } as const
const mode = Type.Integer({ minimum: 0, maximum: 0o777 })
const storedEntry = Type.Union([
  Type.Object(
    { kind: Type.Literal('file'), mode, size: Type.Integer({ minimum: 0, maximum: MAX_REPLACEABLE_BYTES }) },
    strict,
  ),
  // symlink(2): at most PATH_MAX bytes, including the final NUL.
  Type.Object({ kind: Type.Literal('link'), target: Type.String({ pattern: '^[^\\0]{1,4095}$' }) }, strict),
  Type.Object({ kind: Type.Literal('folder'), mode }, strict),
  Type.Object({ kind: Type.Literal('absent') }, strict),
])
const storedImage = Type.Object({ path: Type.String(), entry: storedEntry, behind: Type.Optional(storedEntry) }, strict)
const storedUndo = Type.Object(
  { setting: Type.String(), previous: Type.Unknown(), next: Type.Unknown(), images: Type.Array(storedImage) },
  strict,
)
const line = Type.Object({ version: Type.Literal(VERSION), undos: Type.Array(storedUndo) }, strict)

type StoredContent = Type.Static<typeof storedEntry>

/**
 * A record on disk of how to undo changes. For a change under way, it exists from before the first write until the change is
 * over: if the process is killed or the power is cut in between, the next start finds it and undoes the change.
 *
 * It is a file in the state directory: a line of JSON that lists the undos, followed by the content of the files that they put
 * back, in the same order. It names files by their paths under the root, so it stays valid if the root is moved.
 */
export class Journal {
  readonly #state: Files
  readonly #name: string
  readonly #maxContentBytes: number
  /** Whether the file may exist, perhaps from an earlier run. */
  #isOpen = true

  /**
   * @param state The files of the state directory.
   * @param maxContentBytes Limit on the content of all files together.
   */
  constructor(state: Files, name = 'journal', maxContentBytes = MAX_CONTENT_BYTES) {
    this.#state = state
    this.#name = name
    this.#maxContentBytes = maxContentBytes
  }

  get #path(): string {
    return `/${this.#name}`
  }

  /** Makes the undos durable, in place of the previous ones. @throws {HalError} if they are too large to keep. */
  async open(undos: readonly Undo[]): Promise<void> {
    this.#isOpen = true
    await this.#state.writeAtomic(this.#path, encode(undos, this.#maxContentBytes), MODE)
  }

  /** Ends a change, whether it was kept or undone. Durable when it returns. */
  async close(): Promise<void> {
    if (this.#isOpen) await this.#state.remove(this.#path)
    this.#isOpen = false
  }

  /**
   * The undos that an earlier run left; undefined if it left none. Their shape has been checked, but not that they
   * belong to this device: see `Transactions.recover`.
   * @throws {HalError} if the file is not a journal.
   */
  async read(): Promise<readonly Undo[] | undefined> {
    await this.#state.recover(this.#path)
    const bytes = await this.#state.readBytes(this.#path, MAX_LINE_BYTES + this.#maxContentBytes)
    return bytes && decode(bytes)
  }

  /**
   * Moves a file that is not a journal out of the way, for a person to look at. It replaces any file that was set aside before.
   * @returns where the file is now, as a clause.
   */
  async setAside(): Promise<string> {
    const aside = `${this.#name}.bad`
    try {
      // A folder cannot be renamed over a file.
      await this.#state.remove(`/${aside}`).catch(() => undefined)
      await this.#state.rename(this.#path, aside)
      return `it was set aside as ${aside}`
    } catch (error) {
      return `it could not be set aside: ${reasonOf(error)}`
    }
  }
}

function encode(undos: readonly Undo[], maxContentBytes: number): Buffer {
  const content: Buffer[] = []
  const store = (entry: PathContent): StoredContent => {
    if (entry.kind !== 'file') return entry
    content.push(entry.bytes)
    return { kind: 'file', mode: entry.mode, size: entry.bytes.length }
  }
  const stored = undos.map(undo => ({
    ...undo,
    images: undo.images.map(({ path, entry, behind }) => ({
      path,
      entry: store(entry),
      ...(behind && { behind: store(behind) }),
    })),
  }))
  const head = Buffer.from(`${JSON.stringify({ version: VERSION, undos: stored })}\n`)
  const size = content.reduce((sum, bytes) => sum + bytes.length, 0)
  if (head.length > MAX_LINE_BYTES)
    throw new HalError('UNREADABLE', `its values are larger than ${MAX_LINE_BYTES / 1024} KiB`)
  if (size > maxContentBytes)
    throw new HalError('UNREADABLE', `its files are larger than ${maxContentBytes / 1024 ** 2} MiB`)
  return Buffer.concat([head, ...content])
}

function decode(bytes: Buffer): readonly Undo[] {
  const end = bytes.subarray(0, MAX_LINE_BYTES).indexOf('\n')
  if (end < 0) throw notJournal('it has no first line')
  const value = parse(bytes.toString('utf8', 0, end))
  if (!Check(line, value)) throw notJournal('its version or shape is unknown')
  if (value.undos.length === 0) throw notJournal('it is empty')
  let at = end + 1
  const load = (entry: StoredContent): PathContent => {
    if (entry.kind !== 'file') return entry
    at += entry.size
    return { kind: 'file', mode: entry.mode, bytes: bytes.subarray(at - entry.size, at) }
  }
  const undos = value.undos.map(undo => ({
    ...undo,
    images: undo.images.map(({ path, entry, behind }) => {
      if (behind && entry.kind !== 'link') throw notJournal('its version or shape is unknown')
      return { path, entry: load(entry), ...(behind && { behind: load(behind) }) }
    }),
  }))
  if (at !== bytes.length) throw notJournal('it is not complete')
  return undos
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw notJournal('it is not JSON')
  }
}

export function notJournal(why: string): HalError {
  return new HalError('UNREADABLE', `the file is not a journal: ${why}`)
}
