/** Counts what clients have open, by the network of their address, up to a bound for each. */
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

  /** Once for each `enter`. */
  leave(network: string): void {
    const left = (this.#counts.get(network) ?? 1) - 1
    if (left > 0) this.#counts.set(network, left)
    else this.#counts.delete(network)
  }
}

/** Whom an address stands for: an IPv6 host has a whole /64 to choose from (RFC 4291 §2.5.4). */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [head = '', tail] = (address.split('%', 1)[0] ?? '').split('::')
  const groups = head === '' ? [] : head.split(':')
  if (tail !== undefined) {
    const after = tail === '' ? 0 : tail.split(':').length
    while (groups.length + after < 8) groups.push('0')
  }
  return groups
    .slice(0, 4)
    .map(group => group.replace(/^0+(?=.)/, ''))
    .join(':')
}
