import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const gc: () => void = runInNewContext('gc')

/** Collects all garbage, so that the remaining memory is still in use. */
export async function collectGarbage(): Promise<void> {
  for (let times = 0; times < 2; times++) {
    gc()
    // Collected memory is given back a moment later, by another thread.
    await sleep(10)
  }
}
