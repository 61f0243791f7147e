/**
 * Where the page keeps what must outlive it: for this tab, or for this device. Under its path, so that devices behind one
 * proxy do not take each other's.
 */
export const NAME = `receiverd ${location.pathname}`

/** The storage of this tab, and of all tabs on this device. */
export const [tab, device] = [storage('sessionStorage'), storage('localStorage')]

/** Where the browser blocks it, values are kept until the page is left. */
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
