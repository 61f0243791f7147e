import type { Stop } from '../../hal/files/watcher.ts'

/** Calls `due` once after so many milliseconds, unless it is stopped. It does not keep the process running. */
export type Wait = (ms: number, due: () => void) => Stop

export const timer: Wait = (ms, due) => {
  const running = setTimeout(due, ms).unref()
  return () => clearTimeout(running)
}
