/** /proc/net/tcp and tcp6, and those of UDP, which look the same: proc_pid_net(5). */

/** A socket of a program, in the states that matter here. */
export interface TcpSocket {
  readonly port: number
  /** `bound` is one of UDP that talks to anybody. */
  readonly state: 'established' | 'listening' | 'bound'
  /** The other end, as an IP address. */
  readonly peer: string
  /** Identifies the socket for as long as it is open. */
  readonly inode: number
  /** Unread bytes; of a listening socket, connections that were not accepted yet. */
  readonly waiting: number
}

const STATES: Readonly<Record<string, TcpSocket['state']>> = {
  '01': 'established',
  '0A': 'listening',
  '07': 'bound',
}
/** Local address and port, peer and port, state, send and receive queue, timer, retransmits, user, timeout, inode. */
const ROW =
  /^ *\d+: [\dA-F]+:([\dA-F]{4}) ([\dA-F]+):[\dA-F]{4} ([\dA-F]{2}) [\dA-F]+:([\dA-F]+) \S+ \S+ +\d+ +\d+ (\d+) /gm

/** The sockets on these local ports. Connections that no program has accepted yet are not among them. */
export function socketsOf(table: string, ports: readonly number[]): readonly TcpSocket[] {
  const sockets: TcpSocket[] = []
  for (const [, local = '', peer = '', code = '', waiting = '', inode] of table.matchAll(ROW)) {
    const port = Number.parseInt(local, 16)
    const state = STATES[code]
    if (state && inode !== '0' && ports.includes(port))
      sockets.push({ port, state, peer: addressOf(peer), inode: Number(inode), waiting: Number.parseInt(waiting, 16) })
  }
  return sockets
}

/** The kernel prints each 32-bit word in the byte order of the processor, which is little-endian. */
function addressOf(hex: string): string {
  const bytes = Buffer.from(hex, 'hex').swap32()
  if (bytes.length === 4) return bytes.join('.')
  const isMapped = bytes.subarray(0, 10).every(byte => byte === 0) && bytes.readUInt16BE(10) === 0xffff
  if (isMapped) return bytes.subarray(12).join('.')
  const groups = [0, 2, 4, 6, 8, 10, 12, 14].map(at => bytes.readUInt16BE(at).toString(16))
  // The URL standard serializes addresses as RFC 5952 does.
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)
}
