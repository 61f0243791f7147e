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
