import { Announcement } from '../../hal/os/announcement.ts'
import { CertificateFiles } from '../../hal/os/certificate.ts'
import type { Screen } from '../../hal/os/screen.ts'
import type { System } from '../../hal/os/system.ts'
import type { Originals } from '../../hal/transaction/originals.ts'
import type { ApiKeyStore } from '../auth/api-key.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config.ts'
import { addressIn, isReachable } from '../http/address.ts'
import type { Log } from '../log.ts'
import type { SystemStore } from '../system/store.ts'
import { startAnnouncing, stopAnnouncing } from './announcement.ts'
import { startIdleScreen } from './idle-screen.ts'
import { Tls } from './tls.ts'

export interface PresenceOptions {
  readonly config: Pick<Config, 'tlsPort' | 'announce' | 'page'>
  readonly system: System
  readonly screen: Screen
  readonly configuration: SystemStore
  readonly originals: Originals
  readonly keys: ApiKeyStore
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970. */
  readonly builtAt: number
  readonly log: Log
}

export interface Presence {
  /** The TLS server in front; undefined without one. */
  readonly tls: Tls | undefined
  /** @param address Where the API listens: a URL, or the path of a Unix socket. */
  start(address: string): Promise<void>
  /** Resolves when no certificate is being written. */
  stop(): Promise<void>
}

/** How the device shows itself: on its screen, on the network, and by its certificate. */
export function createPresence(options: PresenceOptions): Presence {
  const { config, system, keys } = options
  const hasTls = config.tlsPort !== undefined && system.isRunning
  const tls = hasTls ? new Tls({ ...options, files: new CertificateFiles(system) }) : undefined
  return {
    tls,
    async start(address) {
      // First: without a certificate nobody can connect, whatever else fails.
      tls?.start()
      const announcement = new Announcement(system)
      // Otherwise only a server of the owner leads here, at an address that is not known.
      const port = config.tlsPort ?? (isReachable(address) ? addressIn(address).port : undefined)
      const seen = { ...options, hasPage: config.page, announcement, tls }
      // Neither keeps the other from starting.
      await Promise.all([
        startIdleScreen({
          ...seen,
          port,
          setupKey: () => (keys.isUnused ? keys.current : undefined),
          onSetupKey: changed => keys.onFirstUse(changed),
        }),
        config.announce && port !== undefined ? startAnnouncing({ ...seen, port }) : stopAnnouncing(seen),
      ])
    },
    async stop() {
      await tls?.stop()
    },
  }
}
