import type { System } from './system.ts'

/** The initrd of an image with overlays creates this file if it could not mount the data partition (build/image/initramfs/). */
const WITHOUT_DATA = '/run/receiver-without-data'

/** Whether all writes go to memory, because the data partition could not be mounted. */
export function isTemporary(system: System): Promise<boolean> {
  return system.exists(WITHOUT_DATA)
}
