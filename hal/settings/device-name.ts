import * as Type from 'typebox/type'
import { getValue, setValue } from '../format/key-value.ts'
import type { System } from '../os/system.ts'
import type { Setting } from '../setting.ts'
import { hostname } from './hostname.ts'

const FILE = '/etc/machine-info'
const NAME = 'PRETTY_HOSTNAME'

const schema = Type.String({
  description: 'Name shown to people: 1 to 64 code points, no control characters.',
  pattern: '^\\P{Cc}{1,64}$',
})

/** The name that people see: PRETTY_HOSTNAME of machine-info(5); without one, the host name. */
export function deviceName(system: System): Setting<typeof schema> {
  const host = hostname(system)
  const hostName = () => host.read().catch(() => host.fallback())
  return {
    name: 'deviceName',
    schema,
    files: [FILE],
    dependsOn: [host.name],
    async read() {
      const text = await system.readText(FILE)
      return (text && getValue(text, NAME)) || hostName()
    },
    fallback: hostName,
    async write(next) {
      return system.writeAtomic(FILE, setValue((await system.readForEdit(FILE)) ?? '', NAME, next))
    },
  }
}
