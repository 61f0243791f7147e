import { isDeepStrictEqual } from 'node:util'
import { HalError } from '../../errors.ts'
import { isSame, parseCidr, prefixOfMask } from '../../format/ip.ts'
import { getValue } from '../../format/key-value.ts'
import {
  type Configuration,
  configurationOf,
  editNetworkFile,
  hasConditions,
  matches,
} from '../../format/network-file.ts'
import type { System } from '../../os/system.ts'
import { isUnitInstalled } from '../../os/unit.ts'
import type { Setting, Violation } from '../../setting.ts'
import { whyReadOnly } from '../keyed.ts'
import { whyNotTwice, whyNotValues } from './checks.ts'
import { FOLDERS, fileInForce, type NetworkFile, networkFiles, STATE } from './files.ts'
import { deviceLinks, LINKS, type Link } from './links.ts'
import { configured, type Interface, type Interfaces, isSameConfiguration, schema } from './schema.ts'

const UNIT = 'systemd-networkd.service'
const READ_ONLY = ['present', 'mac', 'up', 'addresses'] as const
/** What says that networkd has the network in hand: it is enabled, by netplan until the next boot alone, or it ran. */
const IN_USE = [
  ...['/etc', '/run'].map(root => `${root}/systemd/system/multi-user.target.wants/${UNIT}`),
  '/run/systemd/netif/state',
]
const LEASES = '/run/systemd/netif/leases'

/** Milliseconds until a static address must be there after networkd was told of it. */
const APPLY_MS = 5_000
const APPLY_POLL_MS = 20
/** Milliseconds for which an address must stand: networkd takes it away first, after networkctl(1) has returned. */
const STANDS_MS = 200

const UNSET: Configuration = { method: 'dhcp', address: '', gateway: '', dns: [] }
/** The network by systemd-networkd: of each interface a .network file of ours, which must come before all others. */
export function network(system: System): Setting<typeof schema> {
  /** Every interface since the start; one that was unplugged as it was last. */
  const seen = new Map<string, Link>()

  const look = async (): Promise<ReadonlySet<Link>> => {
    const links = await deviceLinks(system)
    for (const link of links) seen.set(link.name, link)
    return new Set(links)
  }

  const readWith = async (configuration: (link: Link) => Promise<Configuration>): Promise<Interfaces> => {
    const present = await look()
    const inForce = system.addresses()
    const entries = Array.from(seen.values(), async link => {
      const set = await configuration(link)
      const isPresent = present.has(link)
      const addresses = inForce ? (inForce[link.name] ?? []) : await givenAddresses(system, link, set)
      const value: Interface = {
        present: isPresent,
        mac: link.mac,
        up: isPresent && link.up,
        ...set,
        dns: [...set.dns],
        addresses: isPresent ? [...addresses] : [],
      }
      return [link.name, value] as const
    })
    return Object.fromEntries(await Promise.all(entries))
  }

  const readFrom = (files: readonly NetworkFile[]) =>
    readWith(async link => {
      const file = await fileInForce(system, files, link)
      return file ? configurationOf(file.text) : UNSET
    })

  return {
    name: 'network',
    schema,
    get files() {
      return Array.from(seen.keys(), pathOf)
    },
    mayHave: path => OWN_FILE.test(path),
    sources: [...FOLDERS, LINKS, STATE, LEASES].map(folder => `${folder}/*`),
    async unavailable() {
      if (!(await isUnitInstalled(system, UNIT))) return 'systemd-networkd is not installed'
      const signs = await Promise.all(IN_USE.map(path => system.exists(path)))
      if (!signs.includes(true)) return 'systemd-networkd is not enabled'
      return (await look()).size === 0 ? 'no network interface' : undefined
    },
    read: async () => readFrom(await networkFiles(system)),
    fallback: () => readWith(async () => UNSET),
    async check(next, previous) {
      const refusals: Violation[] = []
      for (const [name, value] of Object.entries(next)) {
        const link = seen.get(name)
        const before = previous[name]
        if (!link || !before) continue
        const found = whyReadOnly(READ_ONLY, value, before)
        if (!isDeepStrictEqual(value, before)) found.push(...whyNotValues(value, before), ...whyNotTwice(name, next))
        if (!isSameConfiguration(value, before)) found.push(...(await whyNotOurs(system, link)))
        refusals.push(...found.map(({ pointer, detail }) => ({ pointer: `/${name}${pointer}`, detail })))
      }
      return refusals
    },
    async write(next) {
      const files = await networkFiles(system)
      const now = await readFrom(files)
      let isRewritten = false
      for (const link of seen.values()) {
        const { name } = link
        const [value, before] = [next[name], now[name]]
        if (!value || !before || isSameConfiguration(value, before)) continue
        const text = await system.readForEdit(pathOf(name))
        const inForce = await fileInForce(system, files, link)
        const edited = editNetworkFile(text, name, configured(value), inForce?.text)
        if (await system.writeAtomic(pathOf(name), edited, 0o644)) isRewritten = true
      }
      return isRewritten
    },
    async activate(next, previous) {
      // It configures anew whatever one of our files is for (networkctl(1)). To ask for that once more would take an address
      // that is in force away again, after networkctl has returned.
      await system.run(['networkctl', 'reload'])
      for (const [name, value] of Object.entries(next)) {
        const before = previous[name]
        if (!before || isSameConfiguration(value, before)) continue
        // One that was unplugged meanwhile is configured when it comes back.
        if (!(await system.exists(`${LINKS}/${name}`))) continue
        await untilApplied(system, name, value)
      }
    },
  }
}

/** Sorts before what distributions bring, and after what an administrator or netplan put first. */
function fileOf(name: string): string {
  return `10-receiverd-${name}.network`
}

function pathOf(name: string): string {
  return `/etc/systemd/network/${fileOf(name)}`
}

/** What `pathOf` makes of the name of an interface. */
const OWN_FILE = /^\/etc\/systemd\/network\/10-receiverd-[\w.-]+\.network$/

/** Files of others are not edited: where one would win, or keeps ours from being read, there is nothing to write. */
async function whyNotOurs(system: System, { name, facts }: Link): Promise<readonly Violation[]> {
  const own = fileOf(name)
  const refuse = (detail: string) => [{ pointer: '', detail }]
  if ((await system.readLink(pathOf(name)).catch(() => undefined)) === '/dev/null') return refuse(`${own} is masked`)
  const files = await networkFiles(system)
  const rival = files.find(file => file.name < own && matches(file.text, facts) !== false)
  if (rival) return refuse(`set by ${rival.name}, which comes before ${own}`)
  const present = files.find(file => file.name === own)
  const isForAnother = present && hasConditions(present.text) && matches(present.text, facts) === false
  return isForAnother ? refuse(`${own} is for another interface`) : []
}

/** The addresses of a system that does not run: what it is to have, or what DHCP gave it last. */
async function givenAddresses(
  system: System,
  { index }: Link,
  { method, address }: Configuration,
): Promise<readonly string[]> {
  if (method === 'static') return address ? [address] : []
  const lease = (await system.readText(`${LEASES}/${index}`).catch(() => '')) ?? ''
  const leased = getValue(lease, 'ADDRESS')
  return leased ? [`${leased}/${prefixOfMask(getValue(lease, 'NETMASK') ?? '')}`] : []
}

/**
 * networkctl(1) returns before it is done. With a carrier, a static address is there soon after.
 * @throws {HalError} where it is not.
 */
async function untilApplied(system: System, name: string, { method, address, up }: Interface): Promise<void> {
  const wanted = parseCidr(address)
  if (method === 'dhcp' || !wanted || !up) return
  let stood = 0
  for (let waited = 0; waited < APPLY_MS; waited += APPLY_POLL_MS) {
    const present = (system.addresses()?.[name] ?? []).map(parseCidr)
    const isThere = present.some(cidr => cidr && isSame(cidr, wanted) && cidr.prefix === wanted.prefix)
    stood = isThere ? stood + APPLY_POLL_MS : 0
    if (stood > STANDS_MS) return
    await new Promise(resolve => setTimeout(resolve, APPLY_POLL_MS))
  }
  const isUp = (await deviceLinks(system)).some(link => link.name === name && link.up)
  if (isUp) throw new HalError('COMMAND_FAILED', `systemd-networkd did not set the address of ${name}`)
}
