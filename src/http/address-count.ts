/** Counts what clients have open, by network, up to a limit for each. */
export class AddressCount {
  readonly #max: number
  readonly #counts = new Map<string, number>()

  constructor(max: number) {
    this.#max = max
  }

  hasRoom(network: string): boolean {
    return (this.#counts.get(network) ?? 0) < this.#max
  }

  enter(network: string): void {
    this.#counts.set(network, (this.#counts.get(network) ?? 0) + 1)
  }

  /** Must be called once for each `enter`. */
  leave(network: string): void {
    const left = (this.#counts.get(network) ?? 1) - 1
    if (left > 0) this.#counts.set(network, left)
    else this.#counts.delete(network)
  }
}
