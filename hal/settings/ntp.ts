import { isIP } from 'node:net'
import * as Type from 'typebox/type'
import { getValues, setValues, sinceReset, words } from '../format/ini.ts'
import { configFiles } from '../os/config-files.ts'
import type { System } from '../os/system.ts'
import { Unit } from '../os/unit.ts'
import { refuse, type Setting } from '../setting.ts'

const FILE = '/etc/systemd/timesyncd.conf.d/50-receiverd.conf'
/** timesyncd.conf(5): drop-ins are read after the main file. */
const MAIN = '/etc/systemd/timesyncd.conf'
const DROP_INS = ['/usr/lib', '/usr/local/lib', '/run', '/etc'].map(root => `${root}/systemd/timesyncd.conf.d`)

const MAX_SERVERS = 8
/** RFC 1123 §2.1, with the length that RFC 1035 §2.3.4 allows. */
const MAX_NAME = 253
const LABEL = '[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
/** Anything with a colon: `whyNotServer` says whether it is an IPv6 address. */
const PATTERN = `^(${LABEL}(\\.${LABEL})*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)$`

const schema = Type.Object(
  {
    enabled: Type.Boolean({ description: 'Whether the clock is set from the network.' }),
    servers: Type.Array(
      Type.String({ description: 'Host name, IPv4 address or IPv6 address.', maxLength: MAX_NAME, pattern: PATTERN }),
      {
        description: 'Servers in order of preference, without duplicates. Empty: the defaults of the system.',
        maxItems: MAX_SERVERS,
      },
    ),
  },
  { description: 'Keeps the clock accurate by asking time servers on the network (NTP).', additionalProperties: false },
)

/** Network time by systemd-timesyncd: the servers in a drop-in of ours, the unit enabled or disabled. */
export function ntp(system: System): Setting<typeof schema> {
  const unit = new Unit(system, 'systemd-timesyncd.service')
  const servers = async () => {
    const dropIns = await configFiles(system, DROP_INS, '.conf')
    const texts = await Promise.all([MAIN, ...dropIns.map(({ path }) => path)].map(path => system.readLossless(path)))
    return effectiveServers(texts.map(text => text ?? ''))
  }
  return {
    name: 'ntp',
    schema,
    get files() {
      return [FILE, ...unit.files]
    },
    get links() {
      return unit.links
    },
    mayHave: path => unit.mayHave(path),
    sources: [MAIN, ...DROP_INS.map(folder => `${folder}/*`), ...unit.sources],
    unavailable: async () => ((await unit.isInstalled()) ? undefined : 'systemd-timesyncd is not installed'),
    read: async () => ({ enabled: await unit.isEnabled(), servers: await servers() }),
    fallback: async () => ({ enabled: await unit.isEnabled(), servers: [] }),
    async check({ enabled, servers }) {
      return [
        ...refuse('/enabled', await unit.whyNot(enabled)),
        ...servers.flatMap((server, at) =>
          refuse(`/servers/${at}`, whyNotServer(server) ?? whyNotAgain(server, servers.slice(0, at))),
        ),
      ]
    },
    async write({ enabled, servers }) {
      const isRewritten = await system.writeAtomic(FILE, editDropIn(await system.readForEdit(FILE), servers))
      return (await unit.setEnabled(enabled)) || isRewritten
    },
    activate: ({ enabled }, previous, isRewritten) => unit.activate(enabled, previous.enabled, isRewritten),
  }
}

/** Each `NTP=` adds to the servers before it; an empty one discards them (timesyncd.conf(5)). */
export function effectiveServers(texts: readonly string[]): string[] {
  const values = texts.flatMap(text => getValues(text, 'Time', 'NTP'))
  return [...new Set(sinceReset(values).flatMap(words))]
}

/** Without servers the drop-in sets none, so that the system's own apply. */
export function editDropIn(text: string | undefined, servers: readonly string[]): string {
  const values = servers.length === 0 ? [] : ['', servers.join(' ')]
  return setValues(text || '# Servers set through receiverd.\n[Time]\n', 'Time', 'NTP', values)
}

/** A name whose last label is numeric would be taken for an address (RFC 1123 §2.1). */
function whyNotServer(server: string): string | undefined {
  if (isIP(server) !== 0) return undefined
  if (server.includes(':') || /(^|\.)\d+$/.test(server))
    return 'must be a host name, an IPv4 address or an IPv6 address'
  return undefined
}

function whyNotAgain(server: string, before: readonly string[]): string | undefined {
  return before.some(other => other.toLowerCase() === server.toLowerCase()) ? 'duplicate' : undefined
}
