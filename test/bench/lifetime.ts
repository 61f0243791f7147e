// Children of this process end with it.
import type { ChildProcess } from 'node:child_process'
import { familyOf } from './proc.ts'

/** Exit status, less 128: as a shell has it. */
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const

/** Turns signals into exits, because a signal alone ends the process without an `exit` event. */
export function exitOnSignals(): void {
  for (const [signal, number] of Object.entries(SIGNALS)) process.once(signal, () => process.exit(128 + number))
}

/** Kills a child and its descendants when this process exits. SIGKILL to nginx's master alone would leave its workers. */
export function killAtExit(child: ChildProcess): void {
  const kill = () => {
    for (const pid of child.pid === undefined ? [] : familyOf(child.pid))
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has ended since.
      }
  }
  process.once('exit', kill)
  child.once('exit', () => process.off('exit', kill))
}
