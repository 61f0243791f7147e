import { getValue } from '../../format/key-value.ts'
import type { Facts } from '../../format/network-file.ts'
import type { System } from '../../os/system.ts'

export const LINKS = '/sys/class/net'
/** ARPHRD_ETHER in <linux/if_arp.h>: wired and wireless interfaces. */
const ETHERNET = '1'
/** Matches names that are valid in a file name and have no special meaning in the patterns of systemd.network(5). */
const NAME = /^[\w.-]+$/
/** wpa_supplicant creates such an interface for each Wi-Fi Direct group, each time under a new name. */
const PEER_TO_PEER = /^p2p-/

/** A network interface, wired or wireless, as the kernel describes it. */
export interface NetworkLink {
  readonly name: string
  /** The interface index, after which networkd names its state file. */
  readonly index: string
  readonly mac: string
  readonly up: boolean
  /** The properties that a .network file matches in its [Match] section. */
  readonly facts: Facts
}

/** Returns the physical interfaces: `lo`, bridges and the like have no underlying device. */
export async function deviceLinks(system: System): Promise<readonly NetworkLink[]> {
  const names = (await system.list(LINKS)).filter(name => NAME.test(name) && !PEER_TO_PEER.test(name))
  const links = await Promise.all(names.map(name => readLink(system, name)))
  return links.filter(link => link !== undefined)
}

/**
 * Whether an interface leads nowhere but through another one, as WireGuard's: it has neither a device behind it nor the
 * type of Ethernet, which bridges and bonds have.
 */
export async function isTunnel(system: System, name: string): Promise<boolean> {
  const type = (await system.readText(`${LINKS}/${name}/type`).catch(() => undefined))?.trim()
  return type !== undefined && type !== ETHERNET && !(await system.exists(`${LINKS}/${name}/device`))
}

async function readLink(system: System, name: string): Promise<NetworkLink | undefined> {
  const folder = `${LINKS}/${name}`
  // Reading `carrier` fails while an interface is down, and reading anything fails while it is being unplugged.
  const attribute = async (file: string) => (await system.readText(`${folder}/${file}`).catch(() => ''))?.trim() ?? ''
  if (!(await system.exists(`${folder}/device`)) || (await attribute('type')) !== ETHERNET) return undefined
  const mac = await attribute('address')
  const state = await attribute('operstate')
  const isWireless = (await system.exists(`${folder}/phy80211`)) || (await system.exists(`${folder}/wireless`))
  return {
    name,
    index: await attribute('ifindex'),
    mac,
    up: state === 'up' || (state === 'unknown' && (await attribute('carrier')) === '1'),
    facts: {
      Name: name,
      MACAddress: mac,
      // NET_ADDR_PERM: the address is the hardware's own.
      ...((await attribute('addr_assign_type')) === '0' && { PermanentMACAddress: mac }),
      Type: getValue(await attribute('uevent'), 'DEVTYPE') || (isWireless ? 'wlan' : 'ether'),
      Kind: null,
      ...(!isWireless && { WLANInterfaceType: null, SSID: null, BSSID: null }),
    },
  }
}
