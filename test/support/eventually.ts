/** Resolves when a condition holds, and rejects when it still does not after `ms`. */
export async function eventually(condition: () => boolean | Promise<boolean>, ms = 5_000): Promise<void> {
  const deadline = performance.now() + ms
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
