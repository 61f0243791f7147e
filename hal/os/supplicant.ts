import { HalError } from '../errors.ts'
import {
  connectedIn,
  type FoundNetwork,
  networksOf,
  STATION_MASK,
  type Station,
  signalIn,
  stationsIn,
} from '../format/wpa-cli.ts'
import type { System } from './system.ts'

/** Where wpa_cli(8) makes the socket that the answers come to: under PrivateTmp=, its own /tmp is hidden from the daemon. */
const REPLIES = '/run/receiverd'
/** Milliseconds for a scan of all channels: two bands take 4 s, three of a slow adapter 8 s. */
const SCAN_MS = 9_000
/** Milliseconds until a daemon that does not answer is given up. */
const SCAN_TIMEOUT_MS = 10_000
const SCAN_POLL_MS = 500
/** Networks of a scan: more than anybody reads. */
export const MAX_FOUND = 64
/** Answers of at most 4 KiB that a scan is read in: some 1,000 stations. */
const MAX_RANGES = 32

/** The wpa_supplicant(8) of an adapter, by its control socket. */
export class Supplicant {
  readonly #system: System
  readonly #command: readonly string[]

  /**
   * @param folder Where its control sockets are, see ctrl_interface in wpa_supplicant.conf(5).
   * @param replies Where the answers come to; it must exist.
   */
  constructor(system: System, adapter: string, folder: string, replies = REPLIES) {
    this.#system = system
    this.#command = ['-p', folder, '-s', replies, '-i', adapter]
  }

  /** Has it read its file again: it leaves the network that it is in, and joins one that the file has. @throws {HalError} */
  async reconfigure(): Promise<void> {
    await this.#order('reconfigure')
  }

  /** The network that it is connected with; "" if none. @throws {HalError} */
  async connected(): Promise<string> {
    return connectedIn(await this.#run('status'))
  }

  /** In dBm; undefined if it is not connected. @throws {HalError} */
  async signal(): Promise<number | undefined> {
    return signalIn(await this.#run('signal_poll'))
  }

  /**
   * Looks for networks on all channels, which disturbs a connection. It ends when stations have been seen since it began, or
   * after `SCAN_MS`. @throws {HalError}
   */
  async scan(): Promise<readonly FoundNetwork[]> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(refused('scan in time')), SCAN_TIMEOUT_MS)
    })
    return Promise.race([this.#scan(), late]).finally(() => clearTimeout(timer))
  }

  async #scan(): Promise<readonly FoundNetwork[]> {
    const began = performance.now()
    const answer = (await this.#run('scan')).trim()
    // Another scan is under way, and does as well.
    if (answer !== 'OK' && answer !== 'FAIL-BUSY') throw refused('scan')
    for (;;) {
      const tookMs = performance.now() - began
      const stations = await this.#stations()
      // A station is as old as its beacon, which may have come at once; the results come together, when it is over.
      const isOver = stations.some(({ ageS }) => ageS <= tookMs / 1000)
      if (isOver || tookMs > SCAN_MS) return networksOf(stations, MAX_FOUND)
      await new Promise(resolve => setTimeout(resolve, SCAN_POLL_MS))
    }
  }

  /** All that it knows: an answer has room for some thirty. */
  async #stations(): Promise<readonly Station[]> {
    const all: Station[] = []
    for (let [from, ranges] = [0, 0]; ranges < MAX_RANGES; ranges++) {
      const { stations, lastId } = stationsIn(await this.#run('bss', `RANGE=${from}-`, `MASK=${STATION_MASK}`))
      all.push(...stations)
      if (lastId === undefined || lastId < from) break
      from = lastId + 1
    }
    return all
  }

  async #order(what: string): Promise<void> {
    if ((await this.#run(what)).trim() !== 'OK') throw refused(what)
  }

  async #run(...what: readonly string[]): Promise<string> {
    return this.#system.run(['wpa_cli', ...this.#command, ...what])
  }
}

/** wpa_cli(8) says it on stdout, and exits with 0. */
function refused(what: string): HalError {
  return new HalError('COMMAND_FAILED', `wpa_supplicant refused to ${what}`)
}
