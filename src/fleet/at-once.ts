/**
 * Does something with each item, some of them at once, in their order.
 * @param act Its errors are the caller's to catch: the first one rejects the whole.
 * @param stop Once it is aborted, no further item is begun.
 * @returns what it gave for each; undefined for those that were not begun.
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
