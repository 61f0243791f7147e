import { HalError } from '../errors.ts'
import type { System } from './system.ts'

/** The only unit that may make the boot partition writable. */
const UNIT = 'receiverd-card.service'
/** The order for that unit: the partition's folder, the files that replace its own, and a list of those that go. */
const ORDER = '/run/receiverd/card'
const REMOVED = `${ORDER}/removed`
const MOUNTS = '/proc/self/mountinfo'
/** Bytes of `/proc/self/mountinfo`: a line for each mount. */
const MAX_MOUNTS_BYTES = 256 * 1024
const DEVICES = '/sys/dev/block'

/** The folder that a person can edit on a PC: the boot partition, which is mounted read-only. */
export class Card {
  readonly #system: System
  readonly #folder: string

  /** @param folder An absolute path on the device. */
  constructor(system: System, folder: string) {
    this.#system = system
    this.#folder = folder
  }

  /** Whether it is mounted: a boot partition is never empty. */
  async isThere(): Promise<boolean> {
    return (await this.#system.list(this.#folder)).length > 0
  }

  /** Whether it is on the disk that this system started from, and not on a stick with the same label. */
  async isOwn(): Promise<boolean> {
    const text = (await this.#system.readText(MOUNTS, MAX_MOUNTS_BYTES)) ?? ''
    // proc_pid_mountinfo(5): `ID PARENT MAJOR:MINOR ROOT MOUNTPOINT …`. A later line is mounted over an earlier one.
    const mounts = new Map(
      text.split('\n').map(line => {
        const [, , device = '', , mountPoint = ''] = line.split(' ')
        return [mountPoint, device]
      }),
    )
    const own = mounts.get(this.#folder)
    // A folder of the root file system.
    if (own === undefined) return true
    return (await this.#diskOf(own)) === (await this.#diskOf(mounts.get('/') ?? ''))
  }

  /** The disk of a block device, by its path in sysfs. */
  async #diskOf(device: string): Promise<string> {
    const target = await this.#system.readLink(`${DEVICES}/${device}`)
    if (target === undefined) return `the device ${device}`
    return (await this.#system.exists(`${DEVICES}/${device}/partition`))
      ? target.slice(0, target.lastIndexOf('/'))
      : target
  }

  /** The names in one of its folders; none if it has no such folder. */
  list(name: string): Promise<readonly string[]> {
    return this.#system.list(`${this.#folder}/${name}`)
  }

  /** The content of a file; undefined if there is none. @throws {HalError} if it has more than `limit` bytes. */
  read(name: string, limit: number): Promise<Buffer | undefined> {
    return this.#system.readBytes(`${this.#folder}/${name}`, limit)
  }

  /**
   * Replaces and removes files, and overwrites their former content. Durable when it returns; if it is interrupted, any of
   * the files may be damaged.
   * @throws {HalError} if the unit fails.
   */
  async update(replaced: Readonly<Record<string, string>>, removed: readonly string[]): Promise<void> {
    if (Object.keys(replaced).length + removed.length === 0) return
    await this.#clear()
    await this.#system.writeAtomic(`${ORDER}/folder`, `${this.#folder}\n`)
    for (const [name, text] of Object.entries(replaced))
      await this.#system.writeAtomic(`${ORDER}/replaced/${name}`, text)
    await this.#system.writeAtomic(REMOVED, removed.map(name => `${name}\n`).join(''))
    try {
      await this.#system.run(['systemctl', 'start', UNIT])
    } catch (error) {
      throw new HalError('COMMAND_FAILED', `${UNIT} could not change the boot partition`, { cause: error })
    } finally {
      await this.#clear()
    }
  }

  async #clear(): Promise<void> {
    for (const name of await this.#system.list(`${ORDER}/replaced`))
      await this.#system.remove(`${ORDER}/replaced/${name}`)
    await this.#system.remove(REMOVED)
  }
}
