import { type WifiNetwork, wpaConfiguration } from '../format/wpa-supplicant.ts'
import type { Undo } from '../setting.ts'
import type { System } from './system.ts'

/** The board's own adapter. */
export const WIRELESS = 'wlan0'
const FILE = `/etc/wpa_supplicant/wpa_supplicant-${WIRELESS}.conf`
const UNIT = `wpa_supplicant@${WIRELESS}.service`
/** It may hold a password. */
const MODE = 0o600

/** The network that the board's Wi-Fi adapter joins. Its unit starts when the adapter appears, if the file is there. */
export class Wifi {
  readonly #system: System

  constructor(system: System) {
    this.#system = system
  }

  /** Whether a network was ever set. */
  isSet(): Promise<boolean> {
    return this.#system.exists(FILE)
  }

  /** The file in place, to be put back by a factory reset. */
  async original(): Promise<Undo> {
    return { setting: 'wifi', previous: null, next: null, images: [await this.#system.capture(FILE)] }
  }

  /** Makes it join a network, whatever it has joined so far. Durable when it returns. */
  async join(network: WifiNetwork): Promise<void> {
    const isWritten = await this.#system.writeAtomic(FILE, wpaConfiguration(network), MODE)
    // Without waiting: nobody knows how long a network takes to answer.
    if (isWritten && (await this.#system.exists(`/sys/class/net/${WIRELESS}`)))
      await this.#system.run(['systemctl', 'restart', '--no-block', UNIT])
  }
}
