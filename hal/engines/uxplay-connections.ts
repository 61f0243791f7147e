/** Milliseconds from when a device connects until UxPlay makes its file, as a rule: older connections are those of others. */
const FILED_MS = 2_000

/** When a connection was opened: between two looks. */
interface Opened {
  readonly after: number
  readonly before: number
}

/** Connections of which one is a device's own. None if that is unknown. */
export interface Candidates {
  readonly inodes: readonly number[]
  /** Whether all of them were there at the first look, so that nothing tells them apart. */
  readonly areOld: boolean
}

/**
 * Tells UxPlay's connections apart by when they were opened. The kernel does not say so; looks at its table show it roughly.
 * All times are in milliseconds of the monotonic clock.
 */
export class Connections {
  #opened: ReadonlyMap<number, Opened> = new Map()
  /** When the last look began. */
  #seenAt = 0
  /** When a connection was last opened. */
  #changedAt = 0
  #filedAt: number | undefined
  #filed: Candidates = { inodes: [], areOld: false }
  #filedLeftAt = 0

  get changedAt(): number {
    return this.#changedAt
  }

  /** Those of the device for which UxPlay made its file. It keeps the file if that device leaves and others stay. */
  get filed(): Candidates {
    return this.#filed
  }

  /** Whether one of those is open. */
  get isFiledOpen(): boolean {
    return this.#filedAt !== undefined && this.#filed.inodes.some(inode => this.#opened.has(inode))
  }

  /** When none of those was open any more: what UxPlay printed before is not about a device without a file. */
  get filedLeftAt(): number {
    return this.#filedLeftAt
  }

  /** Whether that device may have left: nothing tells it from the only connection that stays. */
  get mayFiledHaveLeft(): boolean {
    const { inodes, areOld } = this.#filed
    return areOld && inodes.length > 1 && this.#opened.size === 1
  }

  /** Takes note of those that are open. @param began @param ended Of the look. @param filedAt When UxPlay made its file. */
  see(open: readonly number[], filedAt: number | undefined, began: number, ended: number): void {
    const wasFiledOpen = this.isFiledOpen
    const opened = (inode: number) => this.#opened.get(inode) ?? { after: this.#seenAt, before: ended }
    if (open.some(inode => !this.#opened.has(inode))) this.#changedAt = began
    this.#opened = new Map(open.map(inode => [inode, opened(inode)]))
    this.#seenAt = began
    // Once: when its device has left, an older connection must not pass for it.
    if (filedAt !== this.#filedAt || this.#filed.inodes.length === 0)
      this.#filed = this.#last(Number.POSITIVE_INFINITY, (filedAt ?? 0) - FILED_MS)
    this.#filedAt = filedAt
    if (wasFiledOpen && !this.isFiledOpen) this.#filedLeftAt = began
  }

  /** When the newest open connection was opened, at the latest. */
  get newestAt(): number {
    return Math.max(0, ...[...this.#opened.values()].map(({ before }) => before))
  }

  /** The earliest time at which an open connection may have been opened. */
  openedAfter(inode: number): number | undefined {
    return this.#opened.get(inode)?.after
  }

  /** Those of which one is that of a device without a file, which spoke then and came after `since`. */
  before(at: number, since: number): readonly number[] {
    return this.#last(at, since).inodes
  }

  /** Those that may have been opened between `since` and `at`, or else the newest ones before. */
  #last(at: number, since: number): Candidates {
    const opened = [...this.#opened].filter(([, { after }]) => after <= at)
    const oldest = Math.min(since, Math.max(...opened.map(([, { before }]) => before)))
    const last = opened.filter(([, { before }]) => before >= oldest)
    return { inodes: last.map(([inode]) => inode), areOld: last.every(([, { after }]) => after === 0) }
  }
}

/** Whether the device with one of these connections has left. None if they are unknown. */
export function isGone(inodes: readonly number[], open: readonly number[]): boolean {
  // A device that stays listed for too long harms less than one that keeps others out and is not listed.
  return inodes.length > 0 && !inodes.some(inode => open.includes(inode))
}
