import { isDeepStrictEqual } from 'node:util'
import { type Configuration, configurationOf, editNetworkFile } from '../../format/network-file.ts'
import type { System } from '../../os/system.ts'
import { isUnitInstalled } from '../../os/unit-files.ts'
import { type Setting, type Violation, whyReadOnly } from '../../setting.ts'
import { atMember, ownMember } from '../keyed.ts'
import { givenAddresses, LEASES, leased, untilApplied } from './addresses.ts'
import { whyNotTwice, whyNotValues } from './checks.ts'
import { FOLDERS, fileInForce, type NetworkFile, networkFiles, STATE } from './files.ts'
import { deviceLinks, LINKS, type NetworkLink } from './links.ts'
import { isOwnFile, pathOf, whyNotOurs } from './own-file.ts'
import { configured, type Interface, type Interfaces, isSameConfiguration, schema } from './schema.ts'

const UNIT = 'systemd-networkd.service'
const READ_ONLY = ['present', 'mac', 'up', 'addresses'] as const
/** One of these exists if networkd manages the network: it is enabled (by netplan, only until the next boot), or it has run. */
const IN_USE = [
  ...['/etc', '/run'].map(root => `${root}/systemd/system/multi-user.target.wants/${UNIT}`),
  '/run/systemd/netif/state',
]

const UNSET: Configuration = { method: 'dhcp', address: '', gateway: '', dns: [] }

/** The network through systemd-networkd: one .network file of this service per interface, which must precede all others. */
export function network(system: System): Setting<typeof schema> {
  /** Every interface seen since the start. An unplugged one is kept as it was last seen. */
  const seen = new Map<string, NetworkLink>()

  const listLinks = async (): Promise<ReadonlySet<NetworkLink>> => {
    const links = await deviceLinks(system)
    // Drops interfaces that udev has renamed since the last call, as it does at boot: the old name never comes back.
    for (const { name, index } of seen.values()) {
      const isGone = links.every(link => link.name !== name)
      if (isGone && index !== '' && links.some(link => link.index === index)) seen.delete(name)
    }
    for (const link of links) seen.set(link.name, link)
    return new Set(links)
  }

  const readWith = async (configuration: (link: NetworkLink) => Promise<Configuration>): Promise<Interfaces> => {
    const present = await listLinks()
    const inUse = system.addresses()
    const entries = Array.from(seen.values(), async link => {
      const set = await configuration(link)
      const isPresent = present.has(link)
      const addresses = inUse ? (ownMember(inUse, link.name) ?? []) : await givenAddresses(system, link, set)
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
    mayHave: isOwnFile,
    sources: [...FOLDERS, LINKS, STATE, LEASES].map(folder => `${folder}/*`),
    devices: ['net'],
    watch: changed => system.monitor(['ip', '-oneline', 'monitor', 'link', 'address'], changed),
    async unavailable() {
      if (!(await isUnitInstalled(system, UNIT))) return 'systemd-networkd is not installed'
      const signs = await Promise.all(IN_USE.map(path => system.exists(path)))
      if (!signs.includes(true)) return 'systemd-networkd is not enabled'
      return (await listLinks()).size === 0 ? 'no network interface' : undefined
    },
    read: async () => readFrom(await networkFiles(system)),
    fallback: () => readWith(async () => UNSET),
    async choices() {
      const links = [...(await listLinks())]
      return Object.fromEntries(
        await Promise.all(links.map(async ({ name, index }) => [name, await leased(system, index)] as const)),
      )
    },
    async check(next, previous) {
      const violations: Violation[] = []
      for (const [name, value] of Object.entries(next)) {
        const link = seen.get(name)
        const before = ownMember(previous, name)
        if (!link || !before) continue
        const found = [...whyReadOnly(READ_ONLY, value, before)]
        if (!isDeepStrictEqual(value, before)) found.push(...whyNotValues(value, before), ...whyNotTwice(name, next))
        if (!isSameConfiguration(value, before)) found.push(...(await whyNotOurs(system, link)))
        violations.push(...atMember(name, found))
      }
      return violations
    },
    async write(next) {
      const files = await networkFiles(system)
      const now = await readFrom(files)
      let isRewritten = false
      for (const link of seen.values()) {
        const { name } = link
        const [value, before] = [ownMember(next, name), ownMember(now, name)]
        if (!value || !before || isSameConfiguration(value, before)) continue
        const text = await system.readForEdit(pathOf(name))
        const inForce = await fileInForce(system, files, link)
        const edited = editNetworkFile(text, name, configured(value), inForce?.text)
        if (await system.writeAtomic(pathOf(name), edited, 0o644)) isRewritten = true
      }
      return isRewritten
    },
    async activate(next, previous, isRewritten) {
      if (!isRewritten) return
      // A reload reconfigures every link whose file has changed (networkctl(1)). Reconfiguring a link again would remove
      // an address in use after networkctl has returned.
      await system.run(['networkctl', 'reload'])
      for (const [name, value] of Object.entries(next)) {
        const before = ownMember(previous, name)
        if (!before || isSameConfiguration(value, before)) continue
        // An interface that has been unplugged in the meantime is configured when it returns.
        if (await system.exists(`${LINKS}/${name}`)) await untilApplied(system, name, value)
      }
    },
  }
}
