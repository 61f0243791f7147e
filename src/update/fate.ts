import type { Slot } from '../../hal/format/rauc.ts'
import type { Trial } from './trial.ts'

/** The fate of a version whose trial was begun, see `fateOf`. `waits`: the next restart starts it. */
export type Fate = 'runs' | 'waits' | 'rolled back' | 'interrupted'

/**
 * Returns the fate of a version that an earlier run of the service began to install, or to go back to.
 * @param booted The slot that is running.
 * @param bootId The current boot.
 * @param primary The slot that the boot loader tries first at the next start.
 */
export function fateOf(
  trial: Pick<Trial, 'slot' | 'version' | 'bootId' | 'isReturn'>,
  booted: string,
  bootId: string,
  primary: string | undefined,
  slots: readonly Slot[],
): Fate {
  const { slot, version } = trial
  if (slot === booted) return 'runs'
  const installed = slots.find(each => each.bootName === slot)
  if (installed?.version !== version) return 'interrupted'
  // RAUC tells the boot loader only after the whole slot is written, and before it records the activation.
  // If the device has restarted, the boot loader has tried the version, and could not even load it. Each further restart would
  // only use up another attempt.
  if (primary === slot && installed.state === 'good')
    return trial.bootId === undefined || trial.bootId === bootId ? 'waits' : 'rolled back'
  // It was activated long ago, which says nothing. If it was tried, and did not stay, it has no attempt left.
  if (trial.isReturn) return installed.state === 'good' ? 'interrupted' : 'rolled back'
  // The boot loader drops a version whose attempts are used up. RAUC marks a slot as being written
  // before the first byte, and as activated after the last.
  return installed.isActivated ? 'rolled back' : 'interrupted'
}
