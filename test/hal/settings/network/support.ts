import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { System } from '../../../../hal/os/system.ts'
import { network } from '../../../../hal/settings/network/network.ts'
import type { Interface, Interfaces } from '../../../../hal/settings/network/schema.ts'
import { schemaErrors } from '../../../../src/validate.ts'
import { deviceRoot } from '../../../support/device.ts'

/** The file of ours for eth0. */
export const ETH0 = '/etc/systemd/network/10-receiverd-eth0.network'

/** A device whose interfaces were looked at once, as the service does when it starts. */
export async function device(t: Test, fixture: string, systemOf: (root: string) => System = root => new System(root)) {
  const root = deviceRoot(t, fixture)
  const system = systemOf(root)
  const setting = network(system)
  t.equal(await setting.unavailable?.(), undefined)
  const value = async () => {
    const value = await setting.read()
    t.same(schemaErrors(setting.schema, value as never, ''), [])
    return value
  }
  const put = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  return { root, system, setting, value, put }
}

/** The interfaces, with some members of one of them replaced. */
export function withChange(all: Interfaces, name: string, change: Partial<Interface>): Interfaces {
  const present = all[name]
  if (!present) throw new Error(`no interface ${name}`)
  return { ...all, [name]: { ...present, ...change } }
}
