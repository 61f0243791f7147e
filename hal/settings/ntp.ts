import { isIP } from 'node:net'
import * as Type from 'typebox/type'
import { getValues, setValues } from '../format/ini.ts'
import { configFiles } from '../os/config-files.ts'
import type { System } from '../os/system.ts'
import { isUnitEnabled, isUnitInstalled, UNIT_FOLDERS } from '../os/unit.ts'
import type { Setting } from '../setting.ts'

const FILE = '/etc/systemd/timesyncd.conf.d/50-receiverd.conf'
const UNIT = 'systemd-timesyncd.service'
/** The links that `systemctl enable` makes by the [Install] section of the unit. */
const ENABLED = `/etc/systemd/system/sysinit.target.wants/${UNIT}`
const ALIAS = '/etc/systemd/system/dbus-org.freedesktop.timesync1.service'
/** timesyncd.conf(5): of drop-ins with one name the last folder's counts; all are read after the main file. */
const MAIN = '/etc/systemd/timesyncd.conf'
const DROP_INS = ['/usr/lib', '/usr/local/lib', '/run', '/etc'].map(folder => `${folder}/systemd/timesyncd.conf.d`)

const MAX_SERVERS = 8
const LABEL = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?'

const schema = Type.Object(
  {
    enabled: Type.Boolean({
      description: 'Whether systemd-timesyncd keeps the clock.',
    }),
    servers: Type.Array(
      Type.String({
        description: 'Host name, IPv4 or IPv6 address.',
        maxLength: 253,
        pattern: `^(${LABEL}(\\.${LABEL})*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$`,
      }),
      {
        description: 'Servers, none twice, in order of preference. None at all: those of the system.',
        maxItems: MAX_SERVERS,
      },
    ),
  },
  { description: 'Network time.', additionalProperties: false },
)

/** Network time by systemd-timesyncd: the servers in a drop-in of ours, the unit enabled or disabled. */
export function ntp(system: System): Setting<typeof schema> {
  const isEnabled = () => isUnitEnabled(system, UNIT)
  const servers = async () => {
    const dropIns = await configFiles(system, DROP_INS, '.conf')
    const texts = await Promise.all([MAIN, ...dropIns.map(({ path }) => path)].map(path => system.readText(path)))
    return effectiveServers(texts.map(text => text ?? ''))
  }
  return {
    name: 'ntp',
    schema,
    files: [FILE, ENABLED, ALIAS],
    sources: [MAIN, ...DROP_INS.map(folder => `${folder}/*`), `${UNIT_FOLDERS[0]}/${UNIT}`],
    async unavailable() {
      return (await isUnitInstalled(system, UNIT)) ? undefined : 'systemd-timesyncd is not installed'
    },
    read: async () => ({
      enabled: await isEnabled(),
      servers: await servers(),
    }),
    fallback: async () => ({ enabled: await isEnabled(), servers: [] }),
    async check({ servers }) {
      return servers.flatMap((server, at) => {
        const detail = whyNotServer(server) ?? whyNotAgain(server, servers.slice(0, at))
        return detail === undefined ? [] : [{ pointer: `/servers/${at}`, detail }]
      })
    },
    async write({ enabled, servers }) {
      const isRewritten = await system.writeAtomic(FILE, editDropIn(await system.readForEdit(FILE), servers))
      const isSwitched = enabled !== (await isEnabled())
      if (isSwitched) await system.setUnitEnabled(UNIT, enabled)
      return isRewritten || isSwitched
    },
    async activate({ enabled }) {
      await system.run(['systemctl', enabled ? 'restart' : 'stop', UNIT])
    },
  }
}

/** `NTP=` adds to what stands before it; an empty one forgets that (timesyncd.conf(5)). */
export function effectiveServers(texts: readonly string[]): string[] {
  let servers: string[] = []
  for (const value of texts.flatMap(text => getValues(text, 'Time', 'NTP')))
    servers = value === '' ? [] : [...servers, ...value.split(/\s+/)]
  return [...new Set(servers)]
}

/** With no servers the drop-in names none, and those of the system hold. */
export function editDropIn(text: string | undefined, servers: readonly string[]): string {
  const values = servers.length === 0 ? [] : ['', servers.join(' ')]
  return setValues(text || '# Servers set through receiverd.\n[Time]\n', 'Time', 'NTP', values)
}

/** A name whose last label is a number would be taken for an address (RFC 1123 §2.1). */
function whyNotServer(server: string): string | undefined {
  if (isIP(server) !== 0) return undefined
  if (server.includes(':') || /(^|\.)\d+$/.test(server)) return 'neither a host name nor an IP address'
  return undefined
}

function whyNotAgain(server: string, before: readonly string[]): string | undefined {
  return before.some(other => other.toLowerCase() === server.toLowerCase())
    ? 'a server that stands there already'
    : undefined
}
