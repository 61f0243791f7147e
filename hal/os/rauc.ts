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

/** Where RAUC looks for its configuration, see rauc(8): the first one counts. */
const CONFIGURATIONS = ['/etc/rauc/system.conf', '/run/rauc/system.conf', '/usr/lib/rauc/system.conf']
/** By which the boot loader says from which slot it started the system. */
const COMMAND_LINE = '/proc/cmdline'
const SLOT = /(?:^|\s)rauc\.slot=\S/
const INSTALLER = ['de.pengutronix.rauc', '/', 'de.pengutronix.rauc.Installer']
const POLL_MS = 1_000
/** Looks that may fail in a row: a card that is being written can take RAUC longer to answer than busctl waits. */
const MAX_FAILED_POLLS = 10
const DONE = 100
/** The kernel's words, in RAUC's, for storage that does not take what is written. */
const STORAGE_FAILED = /input\/output error|read-only file system/i
const BAD_STORAGE = 'the storage could not be written: if that happens again, replace the card'

/** RAUC's configuration. */
export interface RaucConfiguration {
  readonly path: string
  /** The value of a key of a section; undefined if it is not set. */
  readonly value: (section: string, key: string) => string | undefined
}

/** Undefined if RAUC is not set up. */
export async function raucConfiguration(system: System): Promise<RaucConfiguration | undefined> {
  for (const path of CONFIGURATIONS) {
    const text = await system.readText(path)
    if (text !== undefined) return { path, value: (section, key) => getValues(text, section, key).at(-1) }
  }
  return undefined
}

/** A bundle that RAUC refuses. The message quotes nothing of it but what it says of itself. */
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

/** The operation that RAUC carries out at the moment. */
export interface RaucStatus {
  /** The boot name of the slot that this system was started from; empty if it was not started from one. */
  readonly bootSlot: string
  readonly isInstalling: boolean
  readonly percent: number
  /** Why the last installation failed, in RAUC's words, which may have paths; empty if it did not. */
  readonly lastError: string
}

/**
 * RAUC 1.13, by its D-Bus interface. While it installs, it answers nothing but `status`: all else throws a HalError.
 * None of this starts a process by itself, and an idle device is not woken by it.
 */
export class Rauc {
  readonly #system: System
  readonly #pollMs: number

  /** @param pollMs Between two looks at an installation. */
  constructor(system: System, pollMs = POLL_MS) {
    this.#system = system
    this.#pollMs = pollMs
  }

  /** Why nothing should be asked of it; undefined if it is set up, and the boot loader said which of its slots runs. */
  async whyAbsent(): Promise<string | undefined> {
    if ((await raucConfiguration(this.#system)) === undefined) return 'RAUC is not set up'
    const isSlot = SLOT.test((await this.#system.readText(COMMAND_LINE)) ?? '')
    return isSlot ? undefined : 'it was not started from a slot of RAUC'
  }

  /** @throws {HalError} if RAUC does not answer, which may take as long as a command may. */
  async status(): Promise<RaucStatus> {
    const names = ['BootSlot', 'Operation', 'Progress', 'LastError']
    const output = await this.#system.run(['busctl', '--json=short', 'get-property', ...INSTALLER, ...names])
    const [bootSlot, operation, progress, lastError] = output.split('\n')
    const percent = percentIn(progress)
    return {
      bootSlot: propertyIn(bootSlot),
      // RAUC also says `idle` when it refused a second installation, while the first goes on.
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

  /** The boot name of the slot that the next start begins with; undefined if none has an attempt left, and it is open. */
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
   * Checks who signed a bundle, for which board it is, and that it is not below the oldest version that the image takes.
   * Its content is checked when it is installed.
   * @param path On the device.
   * @throws {RefusedBundle}
   */
  async inspect(path: string): Promise<BundleInfo> {
    const { files, ...bundle } = bundleIn(await this.#call('InspectBundle', 'sa{sv}', path, '0'))
    // RAUC 1.13 would take it from this device.
    if (files.some(file => /^\/|(^|\/)\.\.(\/|$)/.test(file)))
      throw new RefusedBundle('bundle-damaged', 'it names a file that is not in it')
    const { compatible, minVersion } = await this.#accepted()
    if (bundle.compatible !== compatible) throw new RefusedBundle('bundle-compatible', REFUSALS['bundle-compatible'])
    if (minVersion !== undefined && !((compareVersions(bundle.version, minVersion) ?? -1) >= 0))
      throw new RefusedBundle('bundle-too-old', `its version is below ${minVersion}, the oldest that this device takes`)
    return bundle
  }

  /** Begins to install a bundle into the other slot, and to have that started next. Then `follow` it. */
  async install(path: string): Promise<void> {
    await this.#call('InstallBundle', 'sa{sv}', path, '0')
  }

  /**
   * Resolves when the installation that is under way has succeeded.
   * @throws {RefusedBundle} @throws {HalError} if it failed, with RAUC's own words as the cause. @throws if it was aborted.
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

  /** `good`: its attempts are counted anew. `active`: the next start begins with it, and tries it a few times. */
  async mark(state: 'good' | 'bad' | 'active', bootName: string): Promise<void> {
    const slot = (await this.slots()).find(slot => slot.bootName === bootName)
    if (!slot) throw new HalError('ABSENT', `RAUC knows no slot ${bootName}`)
    await this.#call('Mark', 'ss', state, slot.name)
  }

  /** The checks that RAUC makes of a bundle: it has no method for the second, and makes it only when it installs. */
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

/** The slot that runs may have used up its last attempt, until it is marked good. */
function isNoPrimary({ cause }: HalError): boolean {
  return cause instanceof Error && /unable to find primary boot slot/i.test(cause.message)
}

/** RAUC starts anew if it crashed, and then knows of no error either. */
function assertInstalled({ lastError, percent }: RaucStatus): void {
  if (lastError !== '')
    throw raucError(lastError, STORAGE_FAILED.test(lastError) ? BAD_STORAGE : 'RAUC could not install the bundle')
  if (percent < DONE) throw new HalError('COMMAND_FAILED', 'RAUC ended before the bundle was installed')
}

/** An error whose cause has RAUC's own words. They may have paths. */
function raucError(words: string, message: string): HalError {
  const refusal = refusalIn(words)
  const options = { cause: new Error(words) }
  return refusal
    ? new RefusedBundle(refusal, REFUSALS[refusal], options)
    : new HalError('COMMAND_FAILED', message, options)
}
