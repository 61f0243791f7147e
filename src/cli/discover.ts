import { reasonOf } from '../../hal/errors.ts'
import { type Found, foundIn } from '../../hal/format/avahi-browse.ts'
import { ipv4First } from '../../hal/format/ip.ts'
import type { Run } from '../../hal/os/command.ts'
import { pageAt } from '../http/address.ts'
import { printable } from '../log.ts'
import { SERVICE_TYPE } from '../presence/announcement.ts'
import { CommandError } from './failure.ts'
import { table } from './table.ts'

export interface Receiver {
  readonly name: string
  readonly hostname: string
  /** IPv4 first. */
  readonly addresses: readonly string[]
  readonly port: number
  readonly model: string
  readonly serial: string
  /** The groups of the device, as many as fit into its announcement. */
  readonly groups: readonly string[]
  /** SHA-256 of the public key in base64; empty if the device does not serve TLS. */
  readonly pin: string
  readonly url: string
}

/** Maximum number of devices on a network. Further ones are not listed. */
export const MAX_RECEIVERS = 1_000
const LOOPBACK = /^(127\.|::1$)/
const COLUMNS = ['NAME', 'URL', 'HOST', 'MODEL', 'SERIAL'] as const

/** Returns the receivers on the network, as a table or as JSON. @throws {CommandError} if avahi cannot be asked. */
export async function discover(run: Run, isJson: boolean): Promise<string> {
  const receivers = await findReceivers(run)
  if (isJson) return JSON.stringify(receivers, null, 2)
  if (receivers.length === 0) return 'No receiver was found on this network.'
  return table([
    COLUMNS,
    ...receivers.map(({ name, url, hostname, model, serial }) => [name, url, hostname, model, serial]),
  ])
}

/** Returns the receivers on the network, by name. All values are their own claims. @throws {CommandError} as `discover` */
export async function findReceivers(run: Run): Promise<readonly Receiver[]> {
  const output = await run(['avahi-browse', '--resolve', '--parsable', '--terminate', SERVICE_TYPE]).catch(error => {
    throw new CommandError(`${reasonOf(error)}; discover needs avahi-utils, and avahi-daemon running`)
  })
  return receiversIn(output)
}

/** Merges what avahi found: a device appears once for each of its addresses, and for each network interface. */
function receiversIn(output: string): readonly Receiver[] {
  const all = new Map<string, Found[]>()
  for (const line of output.split('\n')) {
    const found = foundIn(line)
    if (!found) continue
    const key = `${found.host} ${found.port} ${found.name}`
    const others = all.get(key)
    if (others) others.push(found)
    else if (all.size < MAX_RECEIVERS) all.set(key, [found])
  }
  return [...all.values()].map(receiverOf).toSorted((one, other) => one.name.localeCompare(other.name))
}

function receiverOf(found: readonly Found[]): Receiver {
  const [{ name = '', host = '', port = 0, txt = {} } = {}] = found
  const all = [...new Set(found.map(({ address }) => printable(address)))]
  // This device also finds itself at its loopback address.
  const remote = all.filter(address => !LOOPBACK.test(address))
  const addresses = ipv4First(remote.length > 0 ? remote : all)
  const [address = host] = addresses
  const pin = printable(txt.pin ?? '')
  return {
    name: printable(name),
    hostname: printable(host),
    addresses,
    port,
    model: printable(txt.model ?? ''),
    serial: printable(txt.serial ?? ''),
    groups: printable(txt.groups ?? '')
      .split(',')
      .filter(group => group !== ''),
    pin,
    url: pageAt(address, port, pin !== ''),
  }
}
