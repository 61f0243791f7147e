import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { type Run, runCommand } from '../../hal/os/command.ts'
import type { SystemOptions } from '../../hal/os/system.ts'
import { deviceRoot } from './device.ts'
import { commands } from './fakes/commands.ts'
import { FakeMonitors } from './fakes/monitors.ts'
import { FakeSupplicant } from './fakes/supplicant.ts'
import { temporaryFolder } from './folder.ts'

const FILE = 'etc/wpa_supplicant/wpa_supplicant-wlan0.conf'
const OPERSTATE = 'sys/class/net/wlan0/operstate'

export interface WifiDevice {
  readonly options: SystemOptions & { readonly root: string }
  readonly fake: FakeSupplicant
  /** The configuration of the daemon. */
  readonly file: string
  /** Jobs of systemctl(1). */
  readonly jobs: readonly string[]
}

/** A running receiver whose Wi-Fi has a daemon, which is reached by the real wpa_cli(8). */
export async function startWifiDevice(t: Test): Promise<WifiDevice> {
  const root = deviceRoot(t)
  const folder = temporaryFolder(t)
  const file = join(root, FILE)
  mkdirSync(join(folder, 'replies'))
  writeFileSync(file, readFileSync(file, 'utf8').replace('/run/wpa_supplicant', join(folder, 'control')))
  const fake = await FakeSupplicant.start(t, [join(folder, 'control'), 'wlan0', file, join(root, OPERSTATE)])
  const monitors = new FakeMonitors()
  // The kernel reports each network that was joined or left.
  fake.onJoined(() => monitors.print('ip -oneline monitor link', '5: wlan0: <BROADCAST> state UP'))
  const jobs: string[] = []
  const wpaCli: Run = argv => {
    const [command, ...args] = argv.map(word => (word === '/run/receiverd' ? join(folder, 'replies') : word))
    return runCommand([command ?? '', ...args])
  }
  const run = commands({
    wpa_cli: wpaCli,
    systemctl: async argv => {
      if (argv[1] !== 'show') jobs.push(argv.slice(1).join(' '))
      return 'inactive\ndead\n'
    },
  })
  return {
    options: { root, running: true, run, monitor: monitors.monitor, addresses: () => ({}) },
    fake,
    file,
    jobs,
  }
}
