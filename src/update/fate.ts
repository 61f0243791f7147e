import type { Slot } from '../../hal/format/rauc.ts'
import type { Trial } from './trial.ts'

/** The fate of an installed version, see `fateOf`. `waits`: the next restart starts it. */
export type Fate = 'runs' | 'waits' | 'rolled back' | 'interrupted'

/**
 * Returns the fate of a version whose installation an earlier run of the service began.
 * @param booted The slot that is running.
 * @param primary The slot that the boot loader tries first at the next start.
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
  // RAUC tells the boot loader only after the whole slot is written, and before it records the activation.
  if (primary === slot && installed.state === 'good') return 'waits'
  // The boot loader drops a version whose attempts are used up. RAUC marks a slot as being written
  // before the first byte, and as activated after the last.
  return installed.isActivated ? 'rolled back' : 'interrupted'
}
