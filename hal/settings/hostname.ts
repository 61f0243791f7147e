import * as Type from 'typebox/type'
import { HalError } from '../errors.ts'
import { renameLocalHost } from '../format/hosts.ts'
import { setLocalName } from '../os/announcement.ts'
import type { System } from '../os/system.ts'
import type { Setting } from '../setting.ts'
import { IDENTITY } from './identity.ts'
import { LOCKS_OUT } from './locks-out.ts'

const FILE = '/etc/hostname'
const HOSTS = '/etc/hosts'
const KERNEL = '/proc/sys/kernel/hostname'

const MAX_NAME = 64
/** RFC 1123 §2.1 and sethostname(2): labels of 1 to 63 letters, digits and inner hyphens, 64 characters in all. */
const PATTERN = '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$'
const VALID = new RegExp(PATTERN)
const schema = Type.String({
  description:
    'Lower-case letters, digits, hyphens and dots, at most 64 characters. The name on the network, which people do not see.',
  maxLength: MAX_NAME,
  pattern: PATTERN,
  ...IDENTITY,
  ...LOCKS_OUT,
})

/** The host name: /etc/hostname, the kernel's and avahi's host name, and the 127.0.1.1 line in /etc/hosts if it has one. */
export function hostname(system: System): Setting<typeof schema> {
  const read = async (): Promise<string> => {
    const text = await system.readText(FILE)
    if (text === undefined) throw new HalError('ABSENT', 'no host name is set')
    const name = parseHostname(text)
    if (name === undefined) throw new HalError('UNREADABLE', 'the file has no valid host name')
    return name
  }
  return {
    name: 'hostname',
    schema,
    files: [FILE, HOSTS],
    read,
    async fallback() {
      const text = system.isRunning ? await system.readText(KERNEL).catch(() => undefined) : undefined
      return parseHostname(text ?? '') ?? 'localhost'
    },
    async write(next) {
      const previous = await read().catch(() => undefined)
      const isRenamed = await system.writeAtomic(FILE, `${next}\n`)
      const hosts = await system.readForEdit(HOSTS)
      if (hosts === undefined) return isRenamed
      return (await system.writeAtomic(HOSTS, renameLocalHost(hosts, previous, next))) || isRenamed
    },
    async activate(value) {
      // Written as by echo(1): the kernel takes the text before the line break.
      await system.writeAttribute(KERNEL, `${value}\n`)
      await setLocalName(system, value)
    },
  }
}

/** Returns the first line that is neither empty nor a comment (hostname(5)), in lower case: names ignore case (RFC 4343). */
export function parseHostname(text: string): string | undefined {
  const line = text
    .split('\n')
    .map(line => line.trim())
    .find(line => line !== '' && !line.startsWith('#'))
  const name = line?.toLowerCase()
  return name !== undefined && name.length <= MAX_NAME && VALID.test(name) ? name : undefined
}
