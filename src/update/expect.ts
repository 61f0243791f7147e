import { reachable } from '../../hal/format/ip.ts'
import type { System } from '../../hal/os/system.ts'
import { Unit } from '../../hal/os/unit.ts'
import { unitStates } from '../../hal/os/unit-state.ts'
import { connectorFolders, readMonitor } from '../../hal/settings/display/connectors.ts'
import { isTunnel } from '../../hal/settings/network/links.ts'
import type { Expectations } from './trial.ts'

export const RECEIVERD = 'receiverd.service'
export const UXPLAY = 'uxplay.service'
export const WESTON = 'weston.service'
export const NGINX = 'nginx.service'
/** The units that decide whether a version on trial is good. */
const JUDGED = [RECEIVERD, UXPLAY, WESTON, NGINX] as const

/** Returns the parts that work now. @throws {HalError} if systemd does not answer. */
export async function expectations(system: System): Promise<Expectations> {
  const states = await unitStates(system, JUDGED)
  const units: string[] = []
  for (const name of JUDGED) if (states.get(name)?.isActive && !(await isSwitchedOff(system, name))) units.push(name)
  return {
    units,
    screen: (await monitorState(system)) === 'connected',
    interfaces: [...(await reachableInterfaces(system))],
  }
}

/** Returns the interfaces with a reachable address. Tunnels do not count: they keep theirs when the network below fails. */
export async function reachableInterfaces(system: System): Promise<readonly string[]> {
  const addresses = Object.entries(system.addresses() ?? {})
  return withoutTunnels(
    system,
    addresses.flatMap(([name, cidrs]) => (reachable(cidrs).length > 0 ? [name] : [])),
  )
}

export async function withoutTunnels(system: System, names: readonly string[]): Promise<readonly string[]> {
  const areTunnels = await Promise.all(names.map(name => isTunnel(system, name)))
  return names.filter((_, at) => !areTunnels[at])
}

/**
 * Reports whether a setting switched a unit off. Only UxPlay has such a setting. The other judged units need not be enabled:
 * devices start weston, and receiverd starts nginx.
 */
export async function isSwitchedOff(system: System, name: string): Promise<boolean> {
  if (name !== UXPLAY) return false
  const unit = new Unit(system, name)
  // A missing unit was not switched off.
  return (await unit.isInstalled()) && !(await unit.isEnabled())
}

/** Returns the state of the monitor. `absent`: the kernel has no display connector. */
export async function monitorState(system: System): Promise<'connected' | 'disconnected' | 'absent'> {
  const folders = [...(await connectorFolders(system)).values()]
  const monitors = await Promise.all(folders.map(folder => readMonitor(system, folder)))
  if (monitors.some(({ present }) => present)) return 'connected'
  return folders.length > 0 ? 'disconnected' : 'absent'
}
