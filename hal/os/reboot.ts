import type { System } from './system.ts'

/** Has systemd restart the device, and returns when that is certain: systemd stops what runs, this program included. */
export async function reboot(system: System): Promise<void> {
  await system.run(['systemctl', 'reboot'])
}
