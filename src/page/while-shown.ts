/** Milliseconds between requests for what has no events. */
const REFRESH_MS = 5_000

const timers = new WeakMap<HTMLElement, number>()

/**
 * Calls `act` every `ms` milliseconds until the element leaves the page, except while the page is hidden or the last call has
 * not finished.
 */
export function whileShown(element: HTMLElement, ms: number, act: () => void | Promise<void>): void {
  // The element may be shown again before the old timer notices that it was removed.
  clearInterval(timers.get(element))
  let isActing = false
  const timer = setInterval(async () => {
    if (!element.isConnected) return clearInterval(timer)
    if (isActing || document.visibilityState !== 'visible') return
    isActing = true
    try {
      await act()
    } finally {
      isActing = false
    }
  }, ms)
  timers.set(element, timer)
}

/** Calls `refresh` now, and then as `whileShown` does: for what has no events. */
export function keepFresh(element: HTMLElement, refresh: () => Promise<void>): void {
  refresh()
  whileShown(element, REFRESH_MS, refresh)
}
