/** Counts what clients have open, by network, up to a limit per network. */
export class AddressCount {
  readonly #max: number
  readonly #counts = new Map<string, number>()
  #total = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Total of all networks. */
  get total(): number {
    return this.#total
  }

  hasRoom(network: string): boolean {
    return (this.#counts.get(network) ?? 0) < this.#max
  }

  enter(network: string): void {
    this.#total++
    this.#counts.set(network, (this.#counts.get(network) ?? 0) + 1)
  }

  /** Must be called once for each `enter`. */
  leave(network: string): void {
    this.#total--
    const left = (this.#counts.get(network) ?? 1) - 1
    if (left > 0) this.#counts.set(network, left)
    else this.#counts.delete(network)
  }
}
