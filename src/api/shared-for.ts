/** Wraps `make` so that calls within `ms` of the last one share its result. If it fails, the next call makes it again. */
export function sharedFor<T>(ms: number, make: () => Promise<T>): () => Promise<T> {
  let known: { readonly at: number; readonly made: Promise<T> } | undefined
  return () => {
    const at = performance.now()
    if (known && at - known.at <= ms) return known.made
    const one = { at, made: make() }
    known = one
    one.made.catch(() => {
      if (known === one) known = undefined
    })
    return one.made
  }
}
