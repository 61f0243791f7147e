import * as Type from 'typebox/type'
import type { System } from '../os/system.ts'
import { Unit } from '../os/unit.ts'
import { refuse, type Setting } from '../setting.ts'

const schema = Type.Object(
  {
    enabled: Type.Boolean({
      description: 'Whether the device accepts SSH logins, now and after a restart. Open sessions stay open.',
    }),
  },
  { description: 'Login over the network (SSH).', additionalProperties: false },
)

/** Remote login by OpenSSH, through its service or through the socket that starts it on demand. */
export function ssh(system: System): Setting<typeof schema> {
  const unit = new Unit(system, 'ssh.service', 'sshd.service')
  const read = async () => ({ enabled: await unit.isEnabled() })
  return {
    name: 'ssh',
    schema,
    get files() {
      return unit.files
    },
    get links() {
      return unit.links
    },
    mayHave: path => unit.mayHave(path),
    sources: unit.sources,
    unavailable: async () => ((await unit.isInstalled()) ? undefined : 'no SSH server is installed as a service'),
    read,
    fallback: read,
    check: async ({ enabled }) => refuse('/enabled', await unit.whyNot(enabled)),
    write: ({ enabled }) => unit.setEnabled(enabled),
    activate: ({ enabled }, previous, isRewritten) => unit.activate(enabled, previous.enabled, isRewritten),
  }
}
