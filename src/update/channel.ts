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

/** What openssl-cms(1) asks of a certificate unless it is told otherwise, and so RAUC. */
const PURPOSE = 'smimesign'

export interface ChannelOptions {
  readonly system: System
  readonly downloads: Pick<Downloads, 'manifest'>
  /** The address of the channel with its query; empty if none is set. */
  readonly url: () => Promise<string>
  readonly found: (available: UpdateState['available']) => void
  readonly failed: (problem: Problem) => void
  readonly clock: Clock
  readonly log: Log
}

/** The address of the bundle that the device is to have. Only its signed manifest is read to know what it has. */
export class Channel {
  readonly #options: ChannelOptions
  #current: Promise<string | undefined> | undefined

  constructor(options: ChannelOptions) {
    this.#options = options
  }

  /** The address. @throws {Problem} 409 if there is none. */
  async url(): Promise<string> {
    const url = await this.#options.url()
    if (url === '') throw new Problem('conflict', 'No channel is set.')
    return url
  }

  /** Finds out which version the channel has; undefined if that fails. One check for all who ask meanwhile. */
  check(url: string): Promise<string | undefined> {
    this.#current ??= this.#check(url).finally(() => {
      this.#current = undefined
    })
    return this.#current
  }

  async #check(url: string): Promise<string | undefined> {
    const { downloads, found, failed, clock, log } = this.#options
    try {
      const { compatible, ...request } = await this.#rauc()
      const manifest = await downloads.manifest({ url, ...request })
      const [version = ''] = getValues(manifest, 'update', 'version').slice(-1)
      if (getValues(manifest, 'update', 'compatible').at(-1) !== compatible)
        throw new Problem('bundle-compatible', 'The channel has a bundle for another board.')
      if (compareVersions(version, version) === undefined)
        throw new Problem('bundle-damaged', 'The bundle in the channel has no version that can be compared.')
      found({ version, checkedAt: rfc3339(clock.now()) })
      return version
    } catch (error) {
      const problem = problemOf(error)
      log('warning', `update: the channel could not be read: ${problem.message}`)
      failed(problem)
      return undefined
    }
  }

  /** What RAUC's configuration says of bundles. A relative path is that of the configuration. */
  async #rauc(): Promise<Omit<ManifestRequest, 'url'> & { readonly compatible: string }> {
    const configuration = await raucConfiguration(this.#options.system)
    const keyring = configuration?.value('keyring', 'path')
    if (!configuration || !keyring) throw new HalError('ABSENT', 'RAUC has no keyring')
    const { path, value } = configuration
    return {
      compatible: value('system', 'compatible') ?? '',
      keyring: keyring.startsWith('/') ? keyring : join(dirname(path), keyring),
      purpose: value('keyring', 'check-purpose') ?? PURPOSE,
      // As GLib reads it.
      isAsOfSigning: ['true', '1'].includes(value('keyring', 'use-bundle-signing-time') ?? ''),
    }
  }
}
