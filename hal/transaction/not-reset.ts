import { createHash } from 'node:crypto'
import { Check } from 'typebox/schema'
import * as Type from 'typebox/type'
import { isUnreadable } from '../errors.ts'
import type { Files } from '../files/files.ts'
import type { Image, PathContent } from '../files/image.ts'

const FILE = '/not-reset'
/** A password could be guessed from its fingerprint. */
const MODE = 0o600
/** Takes the place of a path for a setting without files. */
const VALUE = ''
/** The fingerprints of a value and of a file that cannot be read: they may have changed, or not. */
const UNKNOWN: readonly unknown[] = [digest(undefined), digest([undefined, undefined])]

const schema = Type.Object({}, { additionalProperties: Type.Object({}, { additionalProperties: { type: 'string' } }) })
/** By setting and path. */
export type Fingerprints = Readonly<Record<string, Readonly<Record<string, string>>>>

/**
 * The files that a reset could not put back, each with a fingerprint of its present content: a later start tries again, unless
 * somebody has changed the file since.
 */
export class NotReset {
  readonly #state: Files
  /** Undefined until it has been read. */
  #left: Fingerprints | undefined

  /** @param state The files of the state directory. */
  constructor(state: Files) {
    this.#state = state
  }

  /** Reads the file. A malformed file counts as missing. */
  async read(): Promise<Fingerprints> {
    if (this.#left) return this.#left
    await this.#state.recover(FILE)
    const text = await this.#state.readText(FILE).catch(error => {
      if (!isUnreadable(error)) throw error
      return undefined
    })
    this.#left = parse(text ?? '')
    return this.#left
  }

  /** Durable when it returns. */
  async write(left: Fingerprints): Promise<void> {
    if (Object.keys(left).length === 0) await this.#state.remove(FILE)
    else await this.#state.writeAtomic(FILE, JSON.stringify(left), MODE)
    this.#left = left
  }

  /** Forgets settings that somebody has set since: they are no longer to be reset. Writes nothing if none was left. */
  async forget(settings: readonly string[]): Promise<void> {
    const left = await this.read()
    if (!settings.some(name => Object.hasOwn(left, name))) return
    await this.write(Object.fromEntries(Object.entries(left).filter(([name]) => !settings.includes(name))))
  }
}

/** A path that could not be captured has no entry. */
type Captured = Pick<Image, 'path'> & Partial<Image>

/** The fingerprints of a setting's files as they are now; if it has no files, of the value that it reads as. */
export function fingerprintsOf(images: readonly Captured[], value?: unknown): Readonly<Record<string, string>> {
  if (images.length === 0) return { [VALUE]: digest(value) }
  return Object.fromEntries(
    images.map(({ path, entry, behind }) => [path, digest([digestible(entry), digestible(behind)])]),
  )
}

/**
 * Reports whether two fingerprints may be of the same content. Hardware that appears late, and storage that fails for a while,
 * must not look like a change by somebody: the value of an unconfirmed change would stay for good.
 */
export function mayBeSame(one: string | undefined, other: string | undefined): boolean {
  return one === other || UNKNOWN.includes(one) || UNKNOWN.includes(other)
}

/** The mode is left out, because it may change without the setting. */
function digestible(content: PathContent | undefined): unknown {
  if (content?.kind === 'file') return ['file', content.bytes.toString('base64')]
  if (content?.kind === 'link') return ['link', content.target]
  return content?.kind
}

function digest(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(value) ?? '')
    .digest('base64')
}

function parse(text: string): Fingerprints {
  try {
    const value: unknown = JSON.parse(text)
    return Check(schema, value) ? (value as Fingerprints) : {}
  } catch {
    return {}
  }
}
