import { reasonOf } from '../../hal/errors.ts'
import { KERNEL } from '../../hal/files/kernel.ts'
import { redoName, replace } from '../../hal/files/replace.ts'
import { KEY_PATTERN } from '../auth/key-file.ts'
import { CommandError } from '../cli/failure.ts'
import { UsageError } from '../usage-error.ts'
import { HERE, MAX_BYTES, readPrivate, writeOwn } from './files.ts'

/** The keys that may be in force on a device. */
export interface Keys {
  readonly key: string
  /** A key that was sent to the device, or is about to be: it may be in force by now. */
  readonly next: string | undefined
}

/** Keys as devices accept them (`POST /api/v1/api-key`), and as they make them. */
const KEY = new RegExp(`^${KEY_PATTERN}$`)
const MODE = 0o600

/**
 * The API keys of a fleet: a line for each device, `NAME,KEY`, or `NAME,KEY,NEXT` while it is not certain which of the two is
 * in force. Lines of other devices, comments (`#`) and the order stay as they are.
 */
export class KeyFile {
  readonly path: string
  /** Changes are made one after the other. */
  #last: Promise<unknown> = Promise.resolve()

  /** @param path An absolute path. */
  constructor(path: string) {
    this.path = path
  }

  /** The path of the file itself, which may be behind links. */
  get target(): string {
    try {
      return KERNEL.realpath(this.path)
    } catch {
      // Reading it says why not.
      return this.path
    }
  }

  /**
   * All keys by the names of their devices.
   * @throws {UsageError} for a malformed line, with its number, and for a file that may have been written only in part.
   */
  async read(): Promise<ReadonlyMap<string, Keys>> {
    const redo = redoName(this.target)
    if (await HERE.exists(redo))
      throw new UsageError(
        `${this.path} may be incomplete: the writing was interrupted, and ${redo} has all keys; rotate-keys finishes it`,
      )
    return keysIn(await readPrivate(this.path), this.path)
  }

  /** Finishes a writing that was interrupted. @throws {CommandError} if that is impossible now. */
  async finish(): Promise<void> {
    const { target } = this
    const redo = redoName(target)
    // Not by `recover`, which does not say why it fails.
    if (await HERE.exists(redo))
      await replace(KERNEL, redo, target).catch(error => {
        throw new CommandError(
          `the writing of ${this.path} was interrupted, and cannot be finished: ${reasonOf(error)}; ${redo} has all keys`,
        )
      })
    await HERE.recover(target)
  }

  /**
   * Replaces the keys of some devices, and adds those whose line is gone. Durable when this resolves. Rejects as `read` and
   * `finish`, or if the storage refuses the write.
   */
  change(changed: ReadonlyMap<string, Keys>): Promise<void> {
    const change = this.#last.then(async () => {
      // The change before this one may have been interrupted by a full disk.
      await this.finish()
      // Somebody may have edited the file in the meantime.
      const text = await readPrivate(this.path)
      keysIn(text, this.path)
      const lines = text.split('\n').map(line => {
        const name = nameIn(line)
        const keys = name === undefined ? undefined : changed.get(name)
        return name === undefined || !keys ? line : lineOf(name, keys)
      })
      const names = new Set(lines.map(nameIn))
      const added = [...changed].filter(([name]) => !names.has(name)).map(([name, keys]) => `${lineOf(name, keys)}\n`)
      const rest = lines.join('\n')
      const whole = [rest, ...(rest.endsWith('\n') || added.length === 0 ? [] : ['\n']), ...added].join('')
      // No command could read it again, and it alone has the keys that devices are about to get.
      if (Buffer.byteLength(whole) > MAX_BYTES)
        throw new CommandError(
          `${this.path} would be larger than ${MAX_BYTES / 1024} KiB: replace fewer keys at once, by --group or --device`,
        )
      await writeOwn(this.path, whole, MODE)
    })
    this.#last = change.catch(() => undefined)
    return change
  }
}

function keysIn(text: string, path: string): ReadonlyMap<string, Keys> {
  const all = new Map<string, Keys>()
  for (const [index, line] of text.split('\n').entries()) {
    const name = nameIn(line)
    if (name === undefined) continue
    const [, key = '', next, ...rest] = line
      .trim()
      .split(',')
      .map(part => part.trim())
    // The line may hold a key, so it is not quoted.
    const fail = (what: string) => new UsageError(`${path}:${index + 1}: ${what}`)
    if (!KEY.test(key) || (next !== undefined && !KEY.test(next)) || rest.length > 0)
      throw fail('give NAME,KEY, with a key of 22 to 128 characters of A-Z, a-z, 0-9 and ._~-')
    if (all.has(name)) throw fail(`${name} has another line before`)
    all.set(name, { key, next })
  }
  return all
}

/** The name of the device that a line is about; undefined for an empty line or a comment. */
function nameIn(line: string): string | undefined {
  const trimmed = line.trim()
  return trimmed === '' || trimmed.startsWith('#') ? undefined : (trimmed.split(',', 1)[0] ?? '').trim()
}

function lineOf(name: string, { key, next }: Keys): string {
  return [name, key, ...(next === undefined ? [] : [next])].join(',')
}
