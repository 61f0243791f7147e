/**
 * The name under which the page stores what must outlive it. It includes the path, so that devices behind the same proxy do not
 * share their items.
 */
export const NAME = `receiverd ${location.pathname}`

/** The storage for this tab, and the one for all tabs of this browser. */
export const [tab, device] = [storage('sessionStorage'), storage('localStorage')]

/** Returns a storage of the browser. If the browser blocks it, values are kept until the page is closed. */
function storage(name: 'sessionStorage' | 'localStorage'): Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> {
  try {
    return window[name]
  } catch {
    const items = new Map<string, string>()
    return {
      getItem: key => items.get(key) ?? null,
      setItem: (key, value) => void items.set(key, value),
      removeItem: key => void items.delete(key),
    }
  }
}
