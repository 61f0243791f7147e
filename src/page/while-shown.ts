const timers = new WeakMap<HTMLElement, number>()

/**
 * Does something again and again, for as long as the element is on the page and somebody can see it. While
 * one turn takes longer than `ms`, no other begins.
 */
export function whileShown(element: HTMLElement, ms: number, act: () => void | Promise<void>): void {
  // It may be shown again before the timer has noticed that it was not.
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
