/**
 * Calls `act` with each item in order, and with up to `limit` items at once.
 * @param act The caller must catch its errors: the first one rejects the whole.
 * @param stop Once it is aborted, no further item is started.
 * @returns the result for each item; undefined for those that were not started.
 */
export async function atOnce<T, R>(
  items: readonly T[],
  limit: number,
  act: (item: T) => Promise<R>,
  stop?: AbortSignal,
): Promise<readonly (R | undefined)[]> {
  const results: (R | undefined)[] = items.map(() => undefined)
  let next = 0
  const worker = async () => {
    for (let at = next++; at < items.length && !stop?.aborted; at = next++) results[at] = await act(items[at] as T)
  }
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker))
  return results
}
