import { test } from 'tap'
import { hardware } from '../../../hal/settings/hardware.ts'
import { Device, runningAt } from '../support/setting-device.ts'

test('the board is described by its device tree', async t => {
  const device = new Device(t, hardware)
  t.same(await device.value(), {
    model: 'Raspberry Pi 4 Model B Rev 1.5',
    serial: '10000000c0ffee42',
    architecture: 'arm64',
  })
  for (const [text, model, what] of [
    ['Board\0', 'Board', 'the NUL at the end'],
    ['A\0B\0', 'A B', 'two strings'],
    [' \0\n', 'PC', 'only white space'],
    [Buffer.from([0xff, 0]), 'PC', 'not UTF-8'],
    ['x'.repeat(70_000), 'PC', 'a file that is too long'],
    [undefined, 'PC', 'no file'],
  ] as const) {
    device.put('/sys/class/dmi/id/product_name', 'PC\n')
    device.put('/proc/device-tree/model', text)
    t.match(await device.value(), { model, serial: '10000000c0ffee42' }, what)
  }
  t.equal(device.setting.write, undefined, 'read-only')
})

test('the architecture is that of os-release, in either place', async t => {
  const device = new Device(t, hardware)
  device.put('/etc/os-release', undefined)
  device.put('/usr/lib/os-release', 'ARCHITECTURE=riscv64\n')
  t.match(await device.value(), { architecture: 'riscv64' }, 'from /usr/lib if /etc has none')
  device.put('/etc/os-release', 'ARCHITECTURE=arm\n')
  t.match(await device.value(), { architecture: 'arm' }, 'from /etc first')
  device.put('/etc/os-release', Buffer.from('NAME=\xff', 'latin1'))
  t.match(await device.value(), { architecture: '' }, 'not UTF-8')
  t.ok(device.setting.sources?.includes('/usr/lib/os-release'), 'both are watched')
})

test('unknown values are empty', async t => {
  const device = new Device(t, hardware)
  for (const path of ['/proc', '/usr/lib/os-release']) device.put(path, undefined)
  t.same(await device.value(), { model: '', serial: '', architecture: '' })
  const running = new Device(t, hardware, root => runningAt(root))
  running.put('/usr/lib/os-release', undefined)
  t.match(
    await running.value(),
    { architecture: /^(arm64|x86-64|arm|x86|riscv64|\w+)$/ },
    'known for the running system',
  )
  t.not((await running.setting.read()).architecture, '')
})
