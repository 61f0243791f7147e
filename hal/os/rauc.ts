import { setTimeout as sleep } from 'node:timers/promises'
import { HalError } from '../errors.ts'
import { getValues } from '../format/ini.ts'
import {
  type BundleInfo,
  bundleIn,
  percentIn,
  propertyIn,
  type Refusal,
  refusalIn,
  type Slot,
  slotsIn,
  textIn,
} from '../format/rauc.ts'
import { compareVersions } from '../format/semver.ts'
import { CommandFailure } from './command.ts'
import type { System } from './system.ts'

/** Where RAUC looks for its configuration, see rauc(8): the first file that exists counts. */
const CONFIGURATIONS = ['/etc/rauc/system.conf', '/run/rauc/system.conf', '/usr/lib/rauc/system.conf']
/** The kernel command line, on which the boot loader names the slot that it booted. */
const COMMAND_LINE = '/proc/cmdline'
const SLOT = /(?:^|\s)rauc\.slot=\S/
const INSTALLER = ['de.pengutronix.rauc', '/', 'de.pengutronix.rauc.Installer']
const POLL_MS = 1_000
/** Polls that may fail in a row: while it writes to a slow card, RAUC can take longer to answer than busctl waits. */
const MAX_FAILED_POLLS = 10
const DONE = 100
/** The kernel's errors for storage that refuses writes, as RAUC quotes them. */
const STORAGE_FAILED = /input\/output error|read-only file system/i
const BAD_STORAGE = 'the storage could not be written: if that happens again, replace the card'
/** RAUC's words for a slot without its partition. */
const NO_PARTITION = /destination device .* not found/i
const TOO_SMALL = 'a second system needs a card of 8 GB or more'

/** RAUC's configuration. */
export interface RaucConfiguration {
  readonly path: string
  /** The value of a key of a section; undefined if it is not set. */
  readonly value: (section: string, key: string) => string | undefined
}

/** Reads RAUC's configuration; undefined if RAUC is not set up. */
export async function raucConfiguration(system: System): Promise<RaucConfiguration | undefined> {
  for (const path of CONFIGURATIONS) {
    const text = await system.readText(path)
    if (text !== undefined) return { path, value: (section, key) => getValues(text, section, key).at(-1) }
  }
  return undefined
}

/** A bundle that RAUC refuses. The message quotes nothing from the bundle. */
export class RefusedBundle extends HalError {
  readonly refusal: Refusal

  constructor(refusal: Refusal, message: string, options?: ErrorOptions) {
    super('UNREADABLE', message, options)
    this.refusal = refusal
  }
}

const REFUSALS: Readonly<Record<Refusal, string>> = {
  'bundle-signature': 'it is not signed with a key that this device trusts, or was changed after it was signed',
  'bundle-compatible': 'it is for another model of device',
  'bundle-damaged': 'it is damaged, or not made for devices of this kind: get it once more',
  'bundle-too-old': 'it is older than this device takes',
}

/** The current operation of RAUC. */
export interface RaucStatus {
  /** The boot name of the slot that this system was started from; empty if it was not started from one. */
  readonly bootSlot: string
  readonly isInstalling: boolean
  readonly percent: number
  /** Why the last installation failed, in RAUC's words, which may contain paths; empty if it did not fail. */
  readonly lastError: string
}

/**
 * RAUC 1.13, through its D-Bus interface. During an installation only `status` works: every other method throws a HalError.
 * Nothing here runs without being called, so an idle device is not woken.
 */
export class Rauc {
  readonly #system: System
  readonly #pollMs: number

  /** @param pollMs Milliseconds between two polls of an installation. */
  constructor(system: System, pollMs = POLL_MS) {
    this.#system = system
    this.#pollMs = pollMs
  }

  /** Why RAUC cannot be used; undefined if it is set up, and the boot loader named the running slot. */
  async whyAbsent(): Promise<string | undefined> {
    if ((await raucConfiguration(this.#system)) === undefined) return 'RAUC is not set up'
    const isSlot = SLOT.test((await this.#system.readText(COMMAND_LINE)) ?? '')
    return isSlot ? undefined : 'it was not started from a slot of RAUC'
  }

  /** Asks RAUC. @throws {HalError} if it does not answer within the time limit of a command. */
  async status(): Promise<RaucStatus> {
    const names = ['BootSlot', 'Operation', 'Progress', 'LastError']
    const output = await this.#system.run(['busctl', '--json=short', 'get-property', ...INSTALLER, ...names])
    const [bootSlot, operation, progress, lastError] = output.split('\n')
    const percent = percentIn(progress)
    return {
      bootSlot: propertyIn(bootSlot),
      // After refusing a second installation, RAUC reports `idle` while the first one goes on.
      isInstalling: propertyIn(operation) === 'installing' || (percent > 0 && percent < DONE),
      percent,
      lastError: propertyIn(lastError),
    }
  }

  /** The boot name of the slot that this system was started from; undefined if it was not started from one. */
  async bootSlot(): Promise<string | undefined> {
    return (await this.status()).bootSlot || undefined
  }

  async slots(): Promise<readonly Slot[]> {
    return slotsIn(await this.#call('GetSlotStatus'))
  }

  /** The boot name of the slot that the next boot tries first; undefined if no slot has an attempt left. */
  async primary(): Promise<string | undefined> {
    try {
      const name = textIn(await this.#call('GetPrimary'))
      return (await this.slots()).find(slot => slot.name === name)?.bootName
    } catch (error) {
      if (error instanceof HalError && isNoPrimary(error)) return undefined
      throw error
    }
  }

  /**
   * Checks a bundle's signature, the board that it is for, and that it is not older than the image accepts. The installation
   * checks its content.
   * @param path A path on the device.
   * @throws {RefusedBundle}
   */
  async inspect(path: string): Promise<BundleInfo> {
    const { files, ...bundle } = bundleIn(await this.#call('InspectBundle', 'sa{sv}', path, '0'))
    // RAUC 1.13 would read such a file from this device.
    if (files.some(file => /^\/|(^|\/)\.\.(\/|$)/.test(file)))
      throw new RefusedBundle('bundle-damaged', 'it names a file that is not in it')
    const { compatible, minVersion } = await this.#accepted()
    if (bundle.compatible !== compatible) throw new RefusedBundle('bundle-compatible', REFUSALS['bundle-compatible'])
    if (minVersion !== undefined && !((compareVersions(bundle.version, minVersion) ?? -1) >= 0))
      throw new RefusedBundle('bundle-too-old', `its version is below ${minVersion}, the oldest that this device takes`)
    return bundle
  }

  /** Starts to install a bundle into the other slot, which is then booted next. Call `follow` afterwards. */
  async install(path: string): Promise<void> {
    await this.#call('InstallBundle', 'sa{sv}', path, '0')
  }

  /**
   * Resolves once the running installation has succeeded.
   * @throws {RefusedBundle} @throws {HalError} if it failed, with RAUC's own words as the cause. @throws if `signal` aborts.
   */
  async follow(percent: (percent: number) => void, signal: AbortSignal): Promise<void> {
    for (let failed = 0; ; ) {
      const status = await this.status().catch(error => {
        if (++failed > MAX_FAILED_POLLS) throw error
      })
      if (status) failed = 0
      if (status?.isInstalling) percent(status.percent)
      else if (status) return assertInstalled(status)
      await sleep(this.#pollMs, undefined, { signal })
    }
  }

  /** Marks a slot. `good`: its count of attempts starts over. `active`: the next boot tries it first, a few times. */
  async mark(state: 'good' | 'bad' | 'active', bootName: string): Promise<void> {
    const slot = (await this.slots()).find(slot => slot.bootName === bootName)
    if (!slot) throw new HalError('ABSENT', `RAUC knows no slot ${bootName}`)
    await this.#call('Mark', 'ss', state, slot.name)
  }

  /** What RAUC compares with a bundle. It has no method for the version, which it compares only during an installation. */
  async #accepted(): Promise<{ compatible: string | undefined; minVersion: string | undefined }> {
    const configuration = await raucConfiguration(this.#system)
    return {
      compatible: configuration?.value('system', 'compatible'),
      minVersion: configuration?.value('system', 'min-bundle-version'),
    }
  }

  async #call(method: string, ...args: readonly string[]): Promise<string> {
    try {
      return await this.#system.run(['busctl', '--json=short', 'call', ...INSTALLER, method, ...args])
    } catch (error) {
      throw error instanceof CommandFailure ? raucError(error.stderr.trim(), error.message) : error
    }
  }
}

/** Whether no slot has an attempt left: the running slot may have used its last one, until it is marked good. */
function isNoPrimary({ cause }: HalError): boolean {
  return cause instanceof Error && /unable to find primary boot slot/i.test(cause.message)
}

/** Throws unless the bundle was installed. RAUC restarts after a crash, and then reports no error either. */
function assertInstalled({ lastError, percent }: RaucStatus): void {
  if (NO_PARTITION.test(lastError)) throw raucError(lastError, TOO_SMALL)
  if (lastError !== '')
    throw raucError(lastError, STORAGE_FAILED.test(lastError) ? BAD_STORAGE : 'RAUC could not install the bundle')
  if (percent < DONE) throw new HalError('COMMAND_FAILED', 'RAUC ended before the bundle was installed')
}

/** An error whose cause holds RAUC's own words, which may contain paths. */
function raucError(words: string, message: string): HalError {
  const refusal = refusalIn(words)
  const options = { cause: new Error(words) }
  return refusal
    ? new RefusedBundle(refusal, REFUSALS[refusal], options)
    : new HalError('COMMAND_FAILED', message, options)
}
