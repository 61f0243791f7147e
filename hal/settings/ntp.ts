import { isDeepStrictEqual } from 'node:util'
import * as Type from 'typebox/type'
import { HOST_PATTERN, MAX_HOST, whyNoHost } from '../format/host.ts'
import { getValues, setValues, sinceReset, words } from '../format/ini.ts'
import { configFiles } from '../os/config-files.ts'
import type { System } from '../os/system.ts'
import { Unit } from '../os/unit.ts'
import { refuse, type Setting } from '../setting.ts'

const NAME = '50-receiverd.conf'
const FILE = `/etc/systemd/timesyncd.conf.d/${NAME}`
/** timesyncd.conf(5): drop-ins are read after the main file. */
const MAIN = '/etc/systemd/timesyncd.conf'
const DROP_INS = ['/usr/lib', '/usr/local/lib', '/run', '/etc'].map(root => `${root}/systemd/timesyncd.conf.d`)

const MAX_SERVERS = 8

const schema = Type.Object(
  {
    enabled: Type.Boolean({ description: 'Whether the clock is set from the network.' }),
    servers: Type.Array(
      Type.String({
        description: 'Host name, IPv4 address or IPv6 address.',
        maxLength: MAX_HOST,
        pattern: HOST_PATTERN,
      }),
      {
        description: 'Servers in order of preference, without duplicates. Empty: the defaults of the system.',
        maxItems: MAX_SERVERS,
      },
    ),
  },
  { description: 'Keeps the clock accurate by asking time servers on the network (NTP).', additionalProperties: false },
)

/** Network time through systemd-timesyncd: the servers in a drop-in of this service, and whether the unit is enabled. */
export function ntp(system: System): Setting<typeof schema> {
  const unit = new Unit(system, 'systemd-timesyncd.service')
  const dropIns = () => configFiles(system, DROP_INS, '.conf')
  /** Returns why the file of this service would not have the last word. Other files are never edited. */
  const whyNotLast = async () => {
    for (const { name, path } of await dropIns())
      if (name > NAME && getValues((await system.readLossless(path).catch(() => '')) ?? '', 'Time', 'NTP').length > 0)
        return `${name}, which is read after ${NAME}, sets servers as well`
    return undefined
  }
  const servers = async () => {
    const texts = await Promise.all(
      [MAIN, ...(await dropIns()).map(({ path }) => path)].map(path => system.readLossless(path)),
    )
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
    async check({ enabled, servers }, previous) {
      return [
        ...refuse('/enabled', await unit.whyNot(enabled)),
        ...refuse('/servers', isDeepStrictEqual(servers, previous.servers) ? undefined : await whyNotLast()),
        ...servers.flatMap((server, at) =>
          refuse(`/servers/${at}`, whyNoHost(server) ?? whyNotAgain(server, servers.slice(0, at))),
        ),
      ]
    },
    async write({ enabled, servers: next }) {
      // Servers of another file stay there, so that a later change of it counts.
      const isRewritten =
        !isDeepStrictEqual(next, await servers().catch(() => undefined)) &&
        (await system.writeAtomic(FILE, editDropIn(await system.readForEdit(FILE), next)))
      return (await unit.setEnabled(enabled)) || isRewritten
    },
    activate: ({ enabled }, previous, isRewritten) => unit.activate(enabled, previous.enabled, isRewritten),
  }
}

/** Returns the servers in force. Each `NTP=` adds to the servers before it; an empty one discards them (timesyncd.conf(5)). */
export function effectiveServers(texts: readonly string[]): string[] {
  const values = texts.flatMap(text => getValues(text, 'Time', 'NTP'))
  return [...new Set(sinceReset(values).flatMap(words))]
}

/** Returns the edited drop-in. Without servers it sets none, so that the defaults of the system apply. */
export function editDropIn(text: string | undefined, servers: readonly string[]): string {
  const values = servers.length === 0 ? [] : ['', servers.join(' ')]
  return setValues(text || '# Servers set through receiverd.\n[Time]\n', 'Time', 'NTP', values)
}

function whyNotAgain(server: string, before: readonly string[]): string | undefined {
  return before.some(other => other.toLowerCase() === server.toLowerCase()) ? 'duplicate' : undefined
}
