import { dirname } from 'node:path'
import { HalError } from '../errors.ts'
import type { System } from './system.ts'

/** The only unit that may make the boot partition writable. */
const UNIT = 'receiverd-card.service'
/** Instructions for that unit: the partition's folder, the files to write there, and a list of files to remove. */
const ORDER = '/run/receiverd/card'
const REMOVED = `${ORDER}/removed`
const MOUNTS = '/proc/self/mountinfo'
/** Limit on `/proc/self/mountinfo` in bytes. It has a line for each mount. */
const MAX_MOUNTS_BYTES = 256 * 1024
const DEVICES = '/sys/dev/block'

/** The boot partition, mounted read-only: a folder that people can edit on a PC. */
export class Card {
  readonly #system: System
  readonly #folder: string

  /** @param folder An absolute path on the device. */
  constructor(system: System, folder: string) {
    this.#system = system
    this.#folder = folder
  }

  /** Whether the partition is mounted: a boot partition is never empty. */
  async isThere(): Promise<boolean> {
    return (await this.#system.list(this.#folder)).length > 0
  }

  /** Whether the partition is on the disk that this system booted from, not on a USB stick with the same label. */
  async isOwn(): Promise<boolean> {
    const text = (await this.#system.readText(MOUNTS, MAX_MOUNTS_BYTES)) ?? ''
    // proc_pid_mountinfo(5): `ID PARENT MAJOR:MINOR ROOT MOUNTPOINT …`. A later mount covers an earlier one at the same place.
    const mounts = new Map(
      text.split('\n').map(line => {
        const [, , device = '', , mountPoint = ''] = line.split(' ')
        return [mountPoint, device]
      }),
    )
    // It may be a folder of a mounted file system.
    let mountPoint = this.#folder
    while (mountPoint !== '/' && !mounts.has(mountPoint)) mountPoint = dirname(mountPoint)
    const [own, root] = await Promise.all([mountPoint, '/'].map(at => this.#diskOf(mounts.get(at) ?? '')))
    return own === root
  }

  /** The sysfs path of the disk that a block device is on. */
  async #diskOf(device: string): Promise<string> {
    const target = await this.#system.readLink(`${DEVICES}/${device}`)
    if (target === undefined) return `the device ${device}`
    return (await this.#system.exists(`${DEVICES}/${device}/partition`))
      ? target.slice(0, target.lastIndexOf('/'))
      : target
  }

  /** The names in a folder of the partition; empty if the folder does not exist. */
  list(name: string): Promise<readonly string[]> {
    return this.#system.list(`${this.#folder}/${name}`)
  }

  /** The content of a file; undefined if it does not exist. @throws {HalError} if it has more than `limit` bytes. */
  read(name: string, limit: number): Promise<Buffer | undefined> {
    return this.#system.readBytes(`${this.#folder}/${name}`, limit)
  }

  /**
   * Replaces and removes files, and overwrites their old content on the disk. Durable when it returns; if it is interrupted,
   * any of the files may be damaged.
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
