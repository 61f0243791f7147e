import { test } from 'tap'
import { firmware } from '../../../hal/settings/firmware.ts'
import { Device } from '../support/setting-device.ts'

const unknown = { name: '', version: '', build: '' }

test('the image is described by os-release', async t => {
  const device = new Device(t, firmware)
  t.same(await device.value(), { name: 'Receiver OS', version: '24.2', build: '20260814.3' }, 'by the usual link')
  for (const [text, value, what] of [
    ['NAME=a\nVERSION_ID=1\nIMAGE_VERSION=2\n', { name: 'a', version: '2', build: '' }, "an image's own version"],
    ['NAME=a\nVERSION_ID=1\nIMAGE_VERSION=\n', { name: 'a', version: '1', build: '' }, 'an empty version'],
    ['NAME=\'a b\'\nPRETTY_NAME=c\nBUILD_ID="d"\n', { name: 'a b', version: '', build: 'd' }, 'in quotes'],
    ['', unknown, 'an empty file'],
    ['garbage\0=\n', unknown, 'garbage'],
    [Buffer.from('NAME=\xff', 'latin1'), unknown, 'not UTF-8'],
    [`NAME=a\n${'#'.repeat(70_000)}`, unknown, 'a file that is too long'],
  ] as const) {
    device.put('/etc/os-release', text)
    t.same(await device.value(), value, what)
  }
  device.put('/etc/os-release', undefined)
  t.match(await device.value(), { name: 'Receiver OS' }, 'from /usr/lib if /etc has none')
  device.put('/usr/lib/os-release', undefined)
  t.same(await device.value(), unknown, 'no file')
  t.equal(device.setting.write, undefined, 'read-only')
})
