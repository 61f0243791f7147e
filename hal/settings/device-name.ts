import * as Type from 'typebox/type'
import { getValue, setValue } from '../format/key-value.ts'
import type { System } from '../os/system.ts'
import { currentValue, type Setting } from '../setting.ts'
import { IDENTITY } from './identity.ts'

const FILE = '/etc/machine-info'
const NAME = 'PRETTY_HOSTNAME'

const schema = Type.String({
  description:
    'Name shown to people, including on phones unless AirPlay has its own name: 1 to 64 characters, no control characters.',
  maxLength: 64,
  pattern: '^\\P{Cc}+$',
  ...IDENTITY,
})

/** The name shown to people: PRETTY_HOSTNAME in machine-info(5), or the host name if there is none. */
export function deviceName(system: System, hostname: Setting<Type.TString>): Setting<typeof schema> {
  return {
    name: 'deviceName',
    schema,
    files: [FILE],
    dependsOn: [hostname.name],
    withoutActivate: 'programs read the file each time they show the name',
    async read() {
      const text = await system.readLossless(FILE)
      return (text && getValue(text, NAME)) || currentValue(hostname)
    },
    fallback: () => currentValue(hostname),
    async write(next) {
      return system.writeAtomic(FILE, setValue((await system.readForEdit(FILE)) ?? '', NAME, next))
    },
  }
}
