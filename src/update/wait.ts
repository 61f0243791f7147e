import type { Stop } from '../../hal/files/watcher.ts'

/** Calls `due` once after `ms` milliseconds, unless stopped. Does not keep the process running. */
export type Wait = (ms: number, due: () => void) => Stop

export const timer: Wait = (ms, due) => {
  const running = setTimeout(due, ms).unref()
  return () => clearTimeout(running)
}

/** Resolves after `ms` milliseconds, or as soon as `signal` is aborted. */
export function pause(ms: number, signal: AbortSignal, wait: Wait = timer): Promise<void> {
  return new Promise(resolve => {
    const over = () => {
      stop()
      signal.removeEventListener('abort', over)
      resolve()
    }
    const stop = wait(ms, over)
    if (signal.aborted) over()
    else signal.addEventListener('abort', over)
  })
}
