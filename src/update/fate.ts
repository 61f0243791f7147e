import type { Slot } from '../../hal/format/rauc.ts'
import type { Trial } from './trial.ts'

/** What has become of a version: see `fateOf`. */
export type Fate = 'runs' | 'waits' | 'rolled back' | 'interrupted'

/**
 * What has become of a version whose installation an earlier run of the service began.
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
  // RAUC notes that a slot is being written before the first byte, and that it was activated after the last.
  if (!installed?.isActivated || installed.version !== version) return 'interrupted'
  // The boot loader takes a version out of the running when its attempts are used up.
  return primary === slot ? 'waits' : 'rolled back'
}
