import type { Stop } from '../files/watcher.ts'
import type { System } from './system.ts'

/**
 * `KERNEL[7.094142] change   /devices/pci0000:00/0000:00:02.0/drm/card0 (drm)` → `drm`. The same line with `UDEV  ` follows
 * once udev's rules have run, which may have changed something, such as the volume of a new sound card.
 */
const EVENT = /^(?:KERNEL|UDEV {2})\[[\d.]+\] \w+ +.* \(([^()\s]+)\)$/

/**
 * Calls `changed` with the subsystem when the kernel adds, removes or changes a device of one of these subsystems, such as
 * `drm` when a monitor is plugged in (udevadm(8)).
 */
export function watchDevices(
  system: System,
  subsystems: readonly string[],
  changed: (subsystem: string) => void,
): Stop {
  const matches = subsystems.map(subsystem => `--subsystem-match=${subsystem}`)
  return system.monitor(['udevadm', 'monitor', '--kernel', '--udev', ...matches], line => {
    const [, subsystem] = EVENT.exec(line) ?? []
    if (subsystem !== undefined) changed(subsystem)
    else if (line === '') for (const each of subsystems) changed(each)
  })
}
