import { renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import type { Argv, Run } from '../../../../hal/os/command.ts'
import type { Addresses } from '../../../../hal/os/system.ts'
import { apply } from '../../support/apply.ts'
import { runningAt } from '../../support/setting-device.ts'
import { device, ETH0, withChange } from './support.ts'

/** A networkd that sets the addresses some time after it was told. */
class SlowNetworkd {
  readonly commands: Argv[] = []
  present: Addresses = {}
  given: Addresses = {}
  failing = ''

  readonly systemAt = (root: string) => runningAt(root, { addresses: () => this.present, run: this.#run })

  readonly #run: Run = async argv => {
    this.commands.push(argv)
    if (argv[1] === this.failing) throw new Error(`${argv[1]} failed`)
    if (argv[1] === 'reload') setTimeout(() => Object.assign(this, { present: this.given }), 50)
    return ''
  }
}

test('networkd is told, and awaited', async t => {
  const networkd = new SlowNetworkd()
  const { root, system, setting, value } = await device(t, 'raspberry-pi-4', networkd.systemAt)
  networkd.present = { eth0: ['192.0.2.21/24'], lo: ['127.0.0.1/8'] }
  networkd.given = { eth0: ['192.0.2.10/24', 'fe80::1/64'] }
  const previous = await value()
  t.same(previous.eth0?.addresses, ['192.0.2.21/24'])
  const next = withChange(previous, 'eth0', { method: 'static', address: '192.0.2.10/24' })
  await apply(system, setting, previous, next)
  t.same(networkd.commands, [['networkctl', 'reload']])
  t.same((await value()).eth0?.addresses, ['192.0.2.10/24', 'fe80::1/64'])

  networkd.commands.length = 0
  const wireless = withChange(await value(), 'wlan0', { method: 'static', address: '198.51.100.10/24' })
  await apply(system, setting, await value(), wireless)
  t.same(networkd.commands, [['networkctl', 'reload']], 'without a carrier, an address is not awaited')

  networkd.failing = 'reload'
  const before = await value()
  const refused = withChange(before, 'eth0', { dns: ['192.0.2.2'] })
  await t.rejects(apply(system, setting, before, refused))
  t.same(await value(), before, 'a failed change is undone')

  networkd.commands.length = 0
  networkd.failing = ''
  renameSync(join(root, 'sys/class/net/eth0'), join(root, 'unplugged'))
  await setting.activate?.(before, refused, true)
  t.same(networkd.commands, [['networkctl', 'reload']], 'an undo does not fail for an interface that was unplugged')
})

test('a change fails if its address does not come into use', async t => {
  const { root, system, setting, value } = await device(t, 'bare-arm64', new SlowNetworkd().systemAt)
  const previous = await value()
  const next = withChange(previous, 'eth0', { method: 'static', address: '192.0.2.10/24' })
  const failure = await apply(system, setting, previous, next).catch((error: unknown) => error)
  t.match(failure, { cause: { message: 'systemd-networkd did not set the address of eth0' } })
  t.throws(() => statSync(join(root, ETH0)), { code: 'ENOENT' })
})
