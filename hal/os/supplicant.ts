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

/** Where wpa_cli(8) makes the socket for answers: under PrivateTmp=, the daemon cannot see this service's /tmp. */
const REPLIES = '/run/receiverd'
/** Milliseconds for a scan of all channels: two bands take 4 s, three bands on a slow adapter 8 s. */
const SCAN_MS = 9_000
/** Milliseconds to wait for a daemon that does not answer. */
const SCAN_TIMEOUT_MS = 10_000
const SCAN_POLL_MS = 500
/** Limit on the networks of a scan: more than anybody reads. */
export const MAX_FOUND = 64
/** Limit on the answers, of at most 4 KiB each, in which a scan is read: about 1,000 stations. */
const MAX_RANGES = 32

/** The wpa_supplicant(8) of an adapter, through its control socket. */
export class Supplicant {
  readonly #system: System
  readonly #command: readonly string[]

  /**
   * @param folder Where its control sockets are, see ctrl_interface in wpa_supplicant.conf(5).
   * @param replies The folder for the answer socket; it must exist.
   */
  constructor(system: System, adapter: string, folder: string, replies = REPLIES) {
    this.#system = system
    this.#command = ['-p', folder, '-s', replies, '-i', adapter]
  }

  /**
   * Makes it read its file again: it leaves its current network, and joins one from the file.
   * @returns whether it accepts the file. If not, it goes on with what it read before.
   * @throws {HalError} if it does not answer.
   */
  async reconfigure(): Promise<boolean> {
    return (await this.#run('reconfigure')).trim() === 'OK'
  }

  /** The name of the network that it is connected to; "" if none. @throws {HalError} */
  async connected(): Promise<string> {
    return connectedIn(await this.#run('status'))
  }

  /** The signal strength in dBm; undefined if it is not connected. @throws {HalError} */
  async signal(): Promise<number | undefined> {
    return signalIn(await this.#run('signal_poll'))
  }

  /**
   * Scans all channels for networks, which disturbs a connection. The scan ends once stations have been seen since it began, or
   * after `SCAN_MS`. @throws {HalError}
   */
  async scan(): Promise<readonly FoundNetwork[]> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(failed(`did not scan within ${SCAN_TIMEOUT_MS / 1000} s`)), SCAN_TIMEOUT_MS)
    })
    return Promise.race([this.#scan(), late]).finally(() => clearTimeout(timer))
  }

  async #scan(): Promise<readonly FoundNetwork[]> {
    const began = performance.now()
    const answer = (await this.#run('scan')).trim()
    // If another scan is under way, its results will do.
    if (answer !== 'OK' && answer !== 'FAIL-BUSY') throw failed('refused to scan')
    for (;;) {
      const tookMs = performance.now() - began
      const stations = await this.#stations()
      // A station's age counts from its last beacon, which may have come at once. All results appear together, at the end of
      // the scan.
      const isOver = stations.some(({ ageS }) => ageS <= tookMs / 1000)
      if (isOver || tookMs > SCAN_MS) return networksOf(stations, MAX_FOUND)
      await new Promise(resolve => setTimeout(resolve, SCAN_POLL_MS))
    }
  }

  /** All stations that it knows. An answer has room for about thirty. */
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

  async #run(...what: readonly string[]): Promise<string> {
    return this.#system.run(['wpa_cli', ...this.#command, ...what])
  }
}

/** wpa_cli(8) reports a refusal on stdout, and exits with 0. */
function failed(how: string): HalError {
  return new HalError('COMMAND_FAILED', `wpa_supplicant ${how}`)
}
