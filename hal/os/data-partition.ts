import type { System } from './system.ts'

/** The initrd of an image with overlays leaves it where the data partition could not be mounted (build/image/initramfs/). */
const WITHOUT_DATA = '/run/receiver-without-data'

/** Whether everything that is written is in memory, because the data partition could not be mounted. */
export function isTemporary(system: System): Promise<boolean> {
  return system.exists(WITHOUT_DATA)
}
