import type { Slot } from '../../hal/format/rauc.ts'
import type { Trial } from './trial.ts'

/** The fate of a version: see `fateOf`. */
export type Fate = 'runs' | 'waits' | 'rolled back' | 'interrupted'

/**
 * The fate of a version whose installation an earlier run of the service began.
 * @param booted The slot that runs.
 * @param primary The one that the next start begins with.
 */
export function fateOf(
  { slot, version }: Pick<Trial, 'slot' | 'version'>,
  booted: string,
  primary: string | undefined,
  slots: readonly Slot[],
): Fate {
  if (slot === booted) return 'runs'
  const installed = slots.find(each => each.bootName === slot)
  if (installed?.version !== version) return 'interrupted'
  // RAUC tells the boot loader before it notes that the slot was activated, and only once all of it is written.
  if (primary === slot && installed.state === 'good') return 'waits'
  // The boot loader takes a version out of the running when its attempts are used up. RAUC notes that a slot is being written
  // before the first byte, and that it was activated after the last.
  return installed.isActivated ? 'rolled back' : 'interrupted'
}
