import { HalError } from '../errors.ts'
import type { System } from './system.ts'
import { isUnitInstalled } from './unit-files.ts'

/** Each instance shows one picture. */
const TEMPLATE = 'screen@.service'
/** It is read again every few seconds. */
const IDLE = '/run/receiverd/screen/idle.svg'
/** Shows its picture over everything else, for ten seconds from its start. */
const IDENTIFY_UNIT = 'screen@identify.service'
const IDENTIFY = '/run/receiverd/screen/identify.svg'
/** Shows its picture over everything else, for two minutes from its start, or until it is stopped. */
const PIN_UNIT = 'screen@pin.service'
const PIN = '/run/receiverd/screen/pin.svg'
/**
 * A picture may show the API key or a PIN. The folder's set-group-ID bit gives each picture the group of its viewers (screen.tmpfiles).
 */
const MODE = 0o640

/** The screen of the device, where the units of this project draw on it. */
export class Screen {
  readonly #system: System

  constructor(system: System) {
    this.#system = system
  }

  async isInstalled(): Promise<boolean> {
    return this.#system.isRunning && isUnitInstalled(this.#system, TEMPLATE)
  }

  /** Shows an SVG picture while nobody mirrors. */
  async showIdle(svg: string): Promise<void> {
    await this.#system.writeAtomic(IDLE, svg, MODE)
  }

  /** Shows an SVG picture for ten seconds, even while somebody mirrors. @throws {HalError} `ABSENT` if there is no screen. */
  async identify(svg: string): Promise<void> {
    if (!(await this.isInstalled())) throw new HalError('ABSENT', 'the device has no screen of its own')
    await this.#system.writeAtomic(IDENTIFY, svg, MODE)
    await this.#system.run(['systemctl', 'restart', IDENTIFY_UNIT])
  }

  /** Shows an SVG picture for two minutes, even while somebody mirrors. Does nothing if there is no screen. */
  async showPin(svg: string): Promise<void> {
    if (!(await this.isInstalled())) return
    await this.#system.writeAtomic(PIN, svg, MODE)
    await this.#system.run(['systemctl', 'restart', PIN_UNIT])
  }

  /** Takes that picture off the screen, and leaves no trace of it. Does nothing if it was not shown. */
  async hidePin(): Promise<void> {
    if (!(await this.#system.exists(PIN))) return
    await this.#system.run(['systemctl', 'stop', PIN_UNIT])
    await this.#system.remove(PIN)
  }
}
