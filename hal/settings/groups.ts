import * as Type from 'typebox/type'
import { words } from '../format/ini.ts'
import { getValue, setValue } from '../format/key-value.ts'
import type { System } from '../os/system.ts'
import { refuse, type Setting } from '../setting.ts'

const FILE = '/etc/receiverd/groups.conf'
const NAME = 'GROUPS'
const MAX_GROUPS = 8
/** Matches the name of a group. */
export const GROUP = /^[a-z0-9-]{1,32}$/

const schema = Type.Array(
  Type.String({
    description: '1 to 32 characters: lower-case letters, digits and hyphens.',
    maxLength: 32,
    pattern: GROUP.source,
  }),
  {
    description: 'The groups that this device belongs to, without duplicates, such as a building or a floor.',
    maxItems: MAX_GROUPS,
  },
)

/** The groups into which the owner of many devices sorts them, stored in a file of this service. */
export function groups(system: System): Setting<typeof schema> {
  return {
    name: 'groups',
    schema,
    files: [FILE],
    withoutActivate: 'the service follows its own configuration',
    async read() {
      const text = (await system.readLossless(FILE)) ?? ''
      return [...new Set(words(getValue(text, NAME) ?? ''))]
    },
    fallback: async () => [],
    check: async next =>
      next.flatMap((group, at) => refuse(`/${at}`, next.indexOf(group) === at ? undefined : 'duplicate')),
    async write(next) {
      return system.writeAtomic(FILE, setValue((await system.readForEdit(FILE)) ?? '', NAME, next.join(' ')), 0o644)
    },
  }
}
