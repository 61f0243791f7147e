import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SystemOptions } from '../../../hal/os/system.ts'
import { FakeAlsa } from './alsa.ts'
import { commands } from './commands.ts'
import { FakeNetworkd } from './networkd.ts'
import { FakeSystemd } from './systemd.ts'

const KERNEL = 'proc/sys/kernel/hostname'
/** What a unit reads when it starts. */
const READ_BY: Readonly<Record<string, string>> = {
  'systemd-timesyncd.service': 'etc/systemd/timesyncd.conf.d/50-receiverd.conf',
  'uxplay.service': 'etc/uxplayrc',
  'weston.service': 'etc/xdg/weston/weston.ini',
}

/**
 * The receiver of test/fixtures as it runs: what its kernel, its units, its network and its sound took up of the files
 * under a root. It goes on when the service stops.
 */
export class FakeReceiver {
  readonly #root: string
  readonly #alsa = new FakeAlsa([[{ name: 'Master', steps: 31, levels: [31, 31], on: true }]])
  readonly #systemd: FakeSystemd
  readonly #networkd: FakeNetworkd
  /** What each unit read when it was started last. */
  readonly #read = new Map<string, string>()

  constructor(root: string) {
    this.#root = root
    this.#systemd = new FakeSystemd(root)
    this.#systemd.onStart = unit => this.#read.set(unit, this.#file(READ_BY[unit] ?? ''))
    this.#networkd = new FakeNetworkd(root, { eth0: '192.0.2.40/24' })
    this.#alsa.store()
    this.boot()
  }

  /** All that runs, with what it goes by. */
  get text(): string {
    const units = Object.keys(READ_BY).map(unit =>
      this.#systemd.isActive(unit) ? `${unit} goes by:\n${this.#read.get(unit)}` : `${unit} does not run\n`,
    )
    const [hostname] = this.#file(KERNEL).split('\n')
    return [`${hostname}\n`, ...units, this.#networkd.text, this.#alsa.text].join('')
  }

  /** The options of a `System` that is this one. */
  get options(): SystemOptions {
    return {
      running: true,
      run: commands({
        systemctl: this.#systemd.systemctl,
        networkctl: this.#networkd.networkctl,
        amixer: this.#alsa.amixer,
        alsactl: this.#alsa.alsactl,
      }),
      monitor: this.#alsa.monitor,
      addresses: this.#networkd.addresses,
    }
  }

  /** As after a power cut: all of it goes by what is kept. */
  boot(): void {
    writeFileSync(join(this.#root, KERNEL), this.#file('etc/hostname'))
    this.#systemd.boot()
    this.#networkd.boot()
    this.#alsa.boot()
  }

  #file(path: string): string {
    try {
      return readFileSync(join(this.#root, path), 'utf8')
    } catch {
      return ''
    }
  }
}
