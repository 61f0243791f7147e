import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HalError } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/os/command.ts'
import type { SystemOptions } from '../../../hal/os/system.ts'
import { FakeAlsa } from './alsa.ts'
import { commands } from './commands.ts'
import { FakeMonitors } from './monitors.ts'
import { FakeNetworkd } from './networkd.ts'
import { FakeSystemd } from './systemd.ts'

const KERNEL = 'proc/sys/kernel/hostname'

/**
 * The receiver in test/fixtures as a running system: what its kernel, its units, its network and its sound have loaded from the
 * files under a root. It keeps running when the service stops.
 */
export class FakeReceiver {
  readonly #root: string
  readonly monitors = new FakeMonitors()
  readonly #alsa = new FakeAlsa([[{ name: 'Master', steps: 31, levels: [31, 31], on: true }]], this.monitors)
  readonly #systemd: FakeSystemd
  readonly #networkd: FakeNetworkd
  /** The configuration that each unit read when it last started. */
  readonly #read = new Map<string, string>()

  constructor(root: string) {
    this.#root = root
    this.#systemd = new FakeSystemd(root)
    this.#systemd.onStart = unit => this.#load(unit)
    this.#networkd = new FakeNetworkd(root, { eth0: '192.0.2.40/24' })
    this.#alsa.store()
    this.boot()
  }

  /** Everything that runs, with the configuration that it uses. */
  get text(): string {
    const units = this.#systemd.units.map(unit =>
      this.#systemd.isActive(unit) ? `${unit} runs with:\n${this.#read.get(unit)}` : `${unit} does not run\n`,
    )
    const [hostname] = this.#file(KERNEL).split('\n')
    return [`${hostname}\n`, ...units, this.#networkd.text, this.#alsa.text].join('')
  }

  /** How often each unit was started. */
  get starts(): string {
    return this.#systemd.text
  }

  /** Options for a `System` that is this receiver. */
  get options(): SystemOptions {
    return {
      running: true,
      run: commands({
        systemctl: this.#systemd.systemctl,
        networkctl: this.#networkd.networkctl,
        amixer: this.#alsa.amixer,
        alsactl: this.#alsa.alsactl,
        wpa_cli: this.#wpaCli,
      }),
      monitor: this.monitors.monitor,
      addresses: this.#networkd.addresses,
    }
  }

  /** As after a power cut: everything uses what was stored. */
  boot(): void {
    writeFileSync(join(this.#root, KERNEL), this.#file('etc/hostname'))
    this.#systemd.boot()
    this.#networkd.boot()
    this.#alsa.boot()
  }

  /** A unit reads its configuration. */
  #load(unit: string): void {
    const files = configurationOf(unit, this.#systemd.read(unit)).flatMap(path => this.#filesAt(path))
    this.#read.set(unit, files.map(path => `${path}:\n${this.#file(path)}`).join(''))
  }

  /** A daemon with a control socket reads its file again without a restart. */
  readonly #wpaCli: Run = async argv => {
    const unit = `wpa_supplicant@${argv[argv.indexOf('-i') + 1]}.service`
    const hasSocket = this.#systemd.isActive(unit) && this.#read.get(unit)?.includes('ctrl_interface=')
    if (!hasSocket) throw new HalError('COMMAND_FAILED', 'wpa_cli failed with status 255')
    if (argv.at(-1) !== 'reconfigure') return 'UNKNOWN COMMAND\n'
    this.#load(unit)
    return 'OK\n'
  }

  /** A path, or all files in a folder. */
  #filesAt(path: string): readonly string[] {
    if (!path.endsWith('/')) return [path]
    const at = join(this.#root, path)
    return existsSync(at) ? readdirSync(at).map(name => path + name) : []
  }

  #file(path: string): string {
    try {
      return readFileSync(join(this.#root, path), 'utf8')
    } catch {
      return ''
    }
  }
}

/**
 * The configuration that a unit reads when it starts: the files in /etc that the unit names, and for a daemon of systemd
 * itself its own file and drop-ins (systemd-system.conf(5)).
 */
function configurationOf(unit: string, text: string): readonly string[] {
  const named = Array.from(text.matchAll(/^(?:ExecStart|Environment|EnvironmentFile)=.*$/gm), ([line]) =>
    Array.from(line.matchAll(/\/etc\/[^\s"']+/g), ([path]) => path.slice(1)),
  )
  const daemon = /^systemd-(\w+)\.service$/.exec(unit)?.[1]
  const own = daemon === undefined ? [] : [`etc/systemd/${daemon}.conf`, `etc/systemd/${daemon}.conf.d/`]
  return [...named.flat(), ...own]
}
