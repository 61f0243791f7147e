import { connect } from 'node:net'
import { join } from 'node:path'
import { HalError } from '../errors.ts'
import type { System } from './system.ts'
import { isUnitInstalled } from './unit-files.ts'

/** The template of the units below: each instance shows one picture. */
const TEMPLATE = 'screen@.service'
/** Shows a picture while nobody mirrors. It always runs, because weston starts it. */
export const IDLE_UNIT = 'screen@idle.service'
/** The unit reads this file again every few seconds. */
const IDLE = '/run/receiverd/screen/idle.svg'
/** Shows its picture over everything else, for ten seconds from its start. */
const IDENTIFY_UNIT = 'screen@identify.service'
const IDENTIFY = '/run/receiverd/screen/identify.svg'
/** Shows its picture over everything else, for two minutes from its start, or until it is stopped. */
const PIN_UNIT = 'screen@pin.service'
const PIN = '/run/receiverd/screen/pin.svg'
/**
 * A picture may show the API key or a PIN, so only its viewers may read it. The folder's set-group-ID bit gives each picture
 * the group of its viewers (screen.tmpfiles).
 */
const MODE = 0o640
/** The socket on which weston accepts clients (weston.service). */
const WAYLAND = '/run/weston/wayland-1'
/**
 * wl_display.sync, with 2 as its callback's id (wayland.xml). Words are in the byte order of the processor, which is
 * little-endian.
 */
const SYNC = Buffer.from('0100000000000c0002000000', 'hex')
/** wl_callback.done of that callback: its id, and its size beside the opcode. A serial number follows. */
const DONE = Buffer.from('0200000000000c00', 'hex')
/** Milliseconds for weston's answer. On a slow board, weston is busy for a second. */
const SYNC_MS = 2_000

/** The screen of a device on which this project's units draw. */
export class Screen {
  readonly #system: System

  constructor(system: System) {
    this.#system = system
  }

  async isInstalled(): Promise<boolean> {
    return this.#system.isRunning && isUnitInstalled(this.#system, TEMPLATE)
  }

  /** Whether weston accepts clients and answers their requests. */
  async isAnswering(): Promise<boolean> {
    return new Promise(resolve => {
      const received: Buffer[] = []
      const socket = connect(join(this.#system.root, WAYLAND))
      const end = (isDone: boolean) => {
        socket.destroy()
        resolve(isDone)
      }
      socket
        .setTimeout(SYNC_MS, () => end(false))
        .on('error', () => end(false))
        .on('close', () => end(false))
        .on('data', (bytes: Buffer) => {
          received.push(bytes)
          if (Buffer.concat(received).includes(DONE)) end(true)
        })
        .write(SYNC)
    })
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

  /** Takes the PIN off the screen, and deletes its picture. Does nothing if no PIN is shown. */
  async hidePin(): Promise<void> {
    if (!(await this.#system.exists(PIN))) return
    await this.#system.run(['systemctl', 'stop', PIN_UNIT])
    await this.#system.remove(PIN)
  }
}
