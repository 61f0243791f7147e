import type { System } from './system.ts'

/** Restarts the device. Returns once systemd has accepted the request; systemd then stops every program, this one included. */
export async function reboot(system: System): Promise<void> {
  await system.run(['systemctl', 'reboot'])
}
