/** Service discovery as a phone does it (RFC 6762, RFC 6763). */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'

export interface Service {
  /** The instance name, which people see. */
  readonly name: string
  readonly port: number
}

const GROUP = '224.0.0.251'
const PORT = 5353
const HEADER_BYTES = 12
const PTR = 12
const SRV = 33
const IN = 1

interface Resource {
  /** The labels of its name. */
  readonly owner: readonly string[]
  readonly type: number
  readonly at: number
}

/**
 * Resolves with the services of a type, such as `_airplay._tcp`, that answer within `ms`. Because the query comes from a
 * port other than 5353, a responder answers by unicast, with all records in one packet (RFC 6762 §6.7).
 */
export async function browse(type: string, localAddress: string, ms = 500): Promise<readonly Service[]> {
  const socket = createSocket('udp4')
  socket.bind(0, localAddress)
  await once(socket, 'listening')
  socket.setMulticastInterface(localAddress)
  const found = new Map<string, Service>()
  socket.on('message', packet => {
    for (const service of services(packet)) found.set(service.name, service)
  })
  socket.send(question([...type.split('.'), 'local']), PORT, GROUP)
  await new Promise(resolve => setTimeout(resolve, ms))
  socket.close()
  return [...found.values()]
}

function question(labels: readonly string[]): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt16BE(1, 4)
  const name = labels.flatMap(label => [Buffer.from([label.length]), Buffer.from(label)])
  return Buffer.concat([header, ...name, Buffer.from([0, 0, PTR, 0, IN])])
}

/** An SRV record's name begins with the instance name; its data has the port. */
function services(packet: Buffer): Service[] {
  return resources(packet)
    .filter(({ type }) => type === SRV)
    .map(({ owner, at }) => ({ name: owner[0] ?? '', port: packet.readUInt16BE(at + 4) }))
}

function resources(packet: Buffer): Resource[] {
  const questions = packet.readUInt16BE(4)
  const count = packet.readUInt16BE(6) + packet.readUInt16BE(8) + packet.readUInt16BE(10)
  let at = HEADER_BYTES
  for (let index = 0; index < questions; index++) at = readName(packet, at).end + 4
  return Array.from({ length: count }, () => {
    const { labels, end } = readName(packet, at)
    const resource = { owner: labels, type: packet.readUInt16BE(end), at: end + 10 }
    at = resource.at + packet.readUInt16BE(end + 8)
    return resource
  })
}

/** Reads labels up to an empty one, or up to a pointer to more labels (RFC 1035 §4.1.4). */
function readName(packet: Buffer, at: number): { readonly labels: readonly string[]; readonly end: number } {
  const length = packet.readUInt8(at)
  if (length === 0) return { labels: [], end: at + 1 }
  if (length >= 0xc0) return { labels: readName(packet, packet.readUInt16BE(at) & 0x3fff).labels, end: at + 2 }
  const rest = readName(packet, at + 1 + length)
  return { labels: [packet.toString('utf8', at + 1, at + 1 + length), ...rest.labels], end: rest.end }
}
