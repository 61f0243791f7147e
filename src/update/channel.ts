import { dirname, join } from 'node:path'
import { HalError } from '../../hal/errors.ts'
import { getValues } from '../../hal/format/ini.ts'
import { compareVersions } from '../../hal/format/semver.ts'
import type { Downloads, ManifestRequest } from '../../hal/os/downloads.ts'
import { raucConfiguration } from '../../hal/os/rauc.ts'
import type { System } from '../../hal/os/system.ts'
import { type Clock, rfc3339 } from '../clock.ts'
import type { Log } from '../log.ts'
import { Problem } from '../problem.ts'
import { problemOf } from './fetcher.ts'
import type { UpdateState } from './state.ts'

/** The certificate purpose that openssl-cms(1), and so RAUC, requires by default. */
const PURPOSE = 'smimesign'

export interface ChannelOptions {
  readonly system: System
  readonly downloads: Pick<Downloads, 'manifest'>
  /** Returns the channel's address with its query; empty if no channel is set. */
  readonly url: () => Promise<string>
  readonly found: (available: UpdateState['available']) => void
  readonly failed: (problem: Problem) => void
  /** The channel that `found` or `failed` reported on is no longer the one that is set. */
  readonly changed: () => void
  readonly clock: Clock
  readonly log: Log
}

/** The channel: the address of the bundle that the device should run. A check reads only the bundle's signed manifest. */
export class Channel {
  readonly #options: ChannelOptions
  #current: { readonly url: string; readonly version: Promise<string | undefined> } | undefined
  /** The address of the channel whose version or failure was reported. */
  #shown: string | undefined

  constructor(options: ChannelOptions) {
    this.#options = options
  }

  /** Returns the channel's address. @throws {Problem} 409 if no channel is set. */
  async url(): Promise<string> {
    const url = await this.#options.url()
    if (url === '') throw new Problem('conflict', 'No channel is set.')
    return url
  }

  /**
   * Returns the version in the channel at `url`; undefined if the check fails, or another channel is set meanwhile. Concurrent
   * calls share one check.
   */
  check(url: string): Promise<string | undefined> {
    if (this.#current?.url === url) return this.#current.version
    const current = { url, version: this.#check(url) }
    this.#current = current
    void current.version.finally(() => {
      if (this.#current === current) this.#current = undefined
    })
    return current.version
  }

  /** To be called when the configuration may have changed. */
  async reconsider(): Promise<void> {
    if (this.#shown === undefined || (await this.#isSet(this.#shown))) return
    this.#shown = undefined
    this.#options.changed()
  }

  async #check(url: string): Promise<string | undefined> {
    const { found, failed, clock, log } = this.#options
    try {
      const version = await this.#versionAt(url)
      if (!(await this.#isSet(url))) return undefined
      this.#shown = url
      found({ version, checkedAt: rfc3339(clock.now()) })
      return version
    } catch (error) {
      const problem = problemOf(error)
      log('warning', `update: the channel could not be read: ${problem.message}`)
      if (!(await this.#isSet(url))) return undefined
      this.#shown = url
      failed(problem)
      return undefined
    }
  }

  async #versionAt(url: string): Promise<string> {
    const { compatible, ...request } = await this.#rauc()
    const manifest = await this.#options.downloads.manifest({ url, ...request })
    const [version = ''] = getValues(manifest, 'update', 'version').slice(-1)
    if (getValues(manifest, 'update', 'compatible').at(-1) !== compatible)
      throw new Problem('bundle-compatible', 'The channel has a bundle for another board.')
    if (compareVersions(version, version) === undefined)
      throw new Problem('bundle-damaged', 'The bundle in the channel has no version that can be compared.')
    return version
  }

  /** Reports whether `url` is still the channel. A setting that cannot be read counts as unchanged. */
  async #isSet(url: string): Promise<boolean> {
    return (await this.#options.url().catch(() => url)) === url
  }

  /** Reads the part of RAUC's configuration that concerns bundles. Relative paths start at the folder of the configuration. */
  async #rauc(): Promise<Omit<ManifestRequest, 'url'> & { readonly compatible: string }> {
    const configuration = await raucConfiguration(this.#options.system)
    const keyring = configuration?.value('keyring', 'path')
    if (!configuration || !keyring) throw new HalError('ABSENT', 'RAUC has no keyring')
    const { path, value } = configuration
    return {
      compatible: value('system', 'compatible') ?? '',
      keyring: keyring.startsWith('/') ? keyring : join(dirname(path), keyring),
      purpose: value('keyring', 'check-purpose') ?? PURPOSE,
      // GLib accepts these two as true.
      isAsOfSigning: ['true', '1'].includes(value('keyring', 'use-bundle-signing-time') ?? ''),
    }
  }
}
