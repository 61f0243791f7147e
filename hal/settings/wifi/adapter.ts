import { absentUnlessRefused, HalError } from '../../errors.ts'
import type { FoundNetwork } from '../../format/wpa-cli.ts'
import { CONTROL_FOLDER, controlFolder, readWpa } from '../../format/wpa-supplicant.ts'
import { Supplicant } from '../../os/supplicant.ts'
import type { System } from '../../os/system.ts'
import { ADMIN_UNITS, findBuiltIn, readUnitFiles } from '../../os/unit-files.ts'
import { deviceLinks, LINKS } from '../network/links.ts'

const FOLDER = '/etc/wpa_supplicant'
const FILE = /^\/etc\/wpa_supplicant\/wpa_supplicant-[\w.-]+\.conf$/
/** The file holds passwords. */
const MODE = 0o600

/** Reports whether a network was set for any adapter, even one that is no longer present. */
export async function isWifiSet(system: System): Promise<boolean> {
  const paths = (await system.list(FOLDER)).map(name => `${FOLDER}/${name}`).filter(path => FILE.test(path))
  const texts = await Promise.all(paths.map(path => system.readLossless(path).catch(absentUnlessRefused)))
  return texts.some(text => readWpa(text ?? '').networks.length > 0)
}

/** The current network of the device, and its signal strength. */
export interface Signal {
  readonly ssid: string
  /** Absent if the adapter does not report it. */
  readonly signalDbm?: number
}

/**
 * The Wi-Fi adapter of the device, and the wpa_supplicant(8) that is enabled for it. If the device has several, the first one
 * counts. An adapter that was unplugged is remembered.
 */
export class Wifi {
  readonly #system: System
  /** The adapter seen last. */
  #name: string | undefined
  /** Whether the daemon refused the file at the last `reload`, and so still uses what it read before. */
  #isRefused = false

  constructor(system: System) {
    this.#system = system
  }

  get files(): readonly string[] {
    return this.#name === undefined ? [] : [fileOf(this.#name)]
  }

  /** Reports whether `files` may have contained a path, with another adapter. */
  mayHave(path: string): boolean {
    return FILE.test(path)
  }

  /** The links that enable the unit. */
  readonly sources: readonly string[] = [`${ADMIN_UNITS}/*`]

  /** The name of the adapter; undefined until one is found. */
  get adapter(): string | undefined {
    return this.#name
  }

  /** Returns why the device has no Wi-Fi that can be managed; undefined if it has. */
  async whyNone(): Promise<string | undefined> {
    const names = (await deviceLinks(this.#system)).filter(({ facts }) => facts.Type === 'wlan').map(({ name }) => name)
    if (names.length === 0) return 'no Wi-Fi adapter'
    let why = ''
    for (const name of names) {
      const unit = unitOf(name)
      const units = await readUnitFiles(this.#system, [unit])
      const isEnabled =
        units.some(({ isMasked, links }) => !isMasked && links.length > 0) || (await findBuiltIn(this.#system, units))
      if (isEnabled) {
        this.#name = name
        return undefined
      }
      why ||= units.length === 0 ? 'wpa_supplicant is not installed' : `${unit} is not enabled`
    }
    return why
  }

  async isPresent(): Promise<boolean> {
    const name = await this.#known()
    return name !== undefined && this.#system.exists(`${LINKS}/${name}`)
  }

  /** Returns the text of the adapter's file; undefined if the file does not exist. */
  async text(): Promise<string | undefined> {
    const name = await this.#known()
    return name === undefined ? undefined : this.#system.readLossless(fileOf(name))
  }

  async textForEdit(): Promise<string | undefined> {
    const name = await this.#known()
    return name === undefined ? undefined : this.#system.readForEdit(fileOf(name))
  }

  /** @returns whether the file changed. */
  async write(text: string): Promise<boolean> {
    const name = await this.#known()
    return name !== undefined && this.#system.writeAtomic(fileOf(name), text, MODE)
  }

  /**
   * Makes the daemon load the file. Does not wait for a connection, because nobody knows how long a network takes to answer.
   * @throws {HalError} if the daemon refuses the file, for example because of a line that was written by hand. The next call,
   * which undoes the change, may find it refusing the old file, too.
   */
  async reload(): Promise<void> {
    const wasRefused = this.#isRefused
    this.#isRefused = false
    const name = await this.#known()
    // When the adapter appears, systemd starts the unit.
    if (name === undefined || !(await this.#system.exists(`${LINKS}/${name}`))) return
    // Without the file, an undone change left behind a daemon that could not start.
    const verb = (await this.#system.exists(fileOf(name))) ? 'restart' : 'stop'
    if (verb === 'restart') {
      const supplicant = this.#supplicant(name)
      // Undefined: the daemon does not run, or has no control socket yet.
      const isAccepted = await supplicant.then(daemon => daemon.reconfigure()).catch(() => undefined)
      if (isAccepted) return
      if (isAccepted === false) {
        // The daemon goes on with what it read before. After a restart, it would end at once, and the device would be offline.
        if (wasRefused) return
        this.#isRefused = true
        throw new HalError('COMMAND_FAILED', 'wpa_supplicant refuses its file; correct the line that its log names')
      }
    }
    await this.#system.unitJobs.run(() => this.#system.run(['systemctl', verb, unitOf(name)]))
  }

  /** Returns the current network; "" if there is none, or if that cannot be determined. */
  async connected(): Promise<string> {
    const name = await this.#known()
    if (name === undefined || !this.#system.isRunning || !(await this.#isUp(name))) return ''
    return (await this.#supplicant(name)).connected().catch(() => '')
  }

  /** Returns undefined if the device is in no network. */
  async signal(): Promise<Signal | undefined> {
    const ssid = await this.connected()
    if (ssid === '' || this.#name === undefined) return undefined
    const signalDbm = await (await this.#supplicant(this.#name)).signal().catch(() => undefined)
    return { ssid, ...(signalDbm !== undefined && { signalDbm }) }
  }

  /** Scans for networks: see `Supplicant.scan`. Returns none without an adapter. @throws {HalError} */
  async scan(): Promise<readonly FoundNetwork[]> {
    const name = await this.#known()
    return name === undefined ? [] : (await this.#supplicant(name)).scan()
  }

  async #known(): Promise<string | undefined> {
    if (this.#name === undefined) await this.whyNone()
    return this.#name
  }

  /** Reports whether the adapter is connected: wpa_supplicant sets the operational state of the interface (RFC 2863). */
  async #isUp(name: string): Promise<boolean> {
    const state = await this.#system.readText(`${LINKS}/${name}/operstate`).catch(() => undefined)
    return state?.trim() === 'up'
  }

  async #supplicant(name: string): Promise<Supplicant> {
    const text = await this.#system.readLossless(fileOf(name)).catch(absentUnlessRefused)
    return new Supplicant(this.#system, name, controlFolder(text ?? '') ?? CONTROL_FOLDER)
  }
}

function fileOf(name: string): string {
  return `${FOLDER}/wpa_supplicant-${name}.conf`
}

/** Returns the unit of an adapter. A dash in an instance name stands for a slash, so it is escaped (systemd.unit(5)). */
function unitOf(name: string): string {
  return `wpa_supplicant@${name.replaceAll('-', '\\x2d')}.service`
}
