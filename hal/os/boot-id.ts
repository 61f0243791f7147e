import type { System } from './system.ts'

/** Returns the UUID that the kernel gives each boot (random(4)); empty where there is none. */
export async function readBootId(system: System): Promise<string> {
  return (await system.readText('/proc/sys/kernel/random/boot_id'))?.trim() ?? ''
}
