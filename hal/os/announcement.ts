import { type Announced, serviceGroup } from '../format/avahi-service.ts'
import type { System } from './system.ts'

/** avahi-daemon(8) watches this folder. */
const FOLDER = '/etc/avahi/services'
const FILE = `${FOLDER}/receiverd.service`

/**
 * Renames the device in mDNS: avahi reads the host name only when it starts. Services of other programs point to the old name,
 * which is gone, until they register again.
 */
export async function setLocalName(system: System, hostname: string): Promise<void> {
  const [label = ''] = hostname.split('.', 1)
  const server = ['org.freedesktop.Avahi', '/', 'org.freedesktop.Avahi.Server']
  // Avahi refuses the name that it has. If it does not run, it reads the name when it starts.
  await system.run(['busctl', '--auto-start=no', 'call', ...server, 'SetHostName', 's', label]).catch(() => undefined)
}

/** The device's announcement on its networks, where avahi runs. */
export class Announcement {
  readonly #system: System

  constructor(system: System) {
    this.#system = system
  }

  async isPossible(): Promise<boolean> {
    return this.#system.isRunning && this.#system.exists(FOLDER)
  }

  /** Removes the leftovers of a `set` that a power cut interrupted. */
  async recover(): Promise<void> {
    await this.#system.recover(FILE)
  }

  async remove(): Promise<void> {
    await this.#system.remove(FILE)
  }

  async set(announced: Announced): Promise<void> {
    await this.#system.writeAtomic(FILE, serviceGroup(announced), 0o644)
  }
}
