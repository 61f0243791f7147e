import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { HalError } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/os/command.ts'
import { hostname } from '../../../hal/settings/hostname.ts'
import { Device, runningAt } from '../support/setting-device.ts'

test('the host name is the first line with a name', async t => {
  const device = new Device(t, hostname)
  for (const [text, value, what] of [
    ['receiver\n', 'receiver', 'a name'],
    ['receiver', 'receiver', 'no line break'],
    ['\n# comment\n  receiver  \nsecond\n', 'receiver', 'comments, empty lines and white space'],
    ['receiver\r\n', 'receiver', 'a DOS line break'],
    ['Receiver\n', 'receiver', 'capital letters'],
    ['a b\n', 'localhost', 'an invalid name'],
    ['a_b\n', 'localhost', 'an underscore'],
    ['# comment\n', 'localhost', 'only a comment'],
    ['', 'localhost', 'an empty file'],
    [Buffer.from([0xff, 10]), 'localhost', 'not UTF-8'],
    ['x'.repeat(70_000), 'localhost', 'a file that is too long'],
    [undefined, 'localhost', 'no file'],
  ] as const) {
    device.put('/etc/hostname', text)
    t.equal(await device.value(), value, what)
  }
})

test('without a stored name, the running system has the name of its kernel', async t => {
  const device = new Device(t, hostname, root => runningAt(root))
  device.put('/etc/hostname', undefined)
  device.put('/proc/sys/kernel/hostname', 'transient\n')
  t.equal(await device.value(), 'transient')
  device.put('/proc/sys/kernel/hostname', '(none)\n')
  t.equal(await device.value(), 'localhost', 'unless that is invalid')
  const other = new Device(t, hostname)
  other.put('/etc/hostname', undefined)
  other.put('/proc/sys/kernel/hostname', 'transient\n')
  t.equal(await other.value(), 'localhost', 'another root has no kernel')
})

test('names of RFC 1123 with at most 64 characters are accepted', async t => {
  const device = new Device(t, hostname)
  const label = 'a'.repeat(63)
  for (const name of ['a', '0', 'a-b', 'a--b', '1a.2b', 'a.b.c', label, `${'a'.repeat(31)}.${'b'.repeat(32)}`])
    t.ok(await device.accepts(name), name)
  for (const name of [
    '',
    ' ',
    'A',
    'a_b',
    '-a',
    'a-',
    'a.',
    '.a',
    'a..b',
    'a.-b',
    'a b',
    'a\n',
    '\na',
    'a\0',
    'é',
    'a/b',
    'a#',
    `${label}a`,
    `${label}.a`,
    `${'a'.repeat(32)}.${'b'.repeat(32)}`,
    'ａ',
    7,
    null,
    ['a'],
  ])
    t.notOk(await device.accepts(name), JSON.stringify(name))
})

test('a new name goes into the file, the host table, the kernel and mDNS', async t => {
  const ran: string[] = []
  const run: Run = async argv => {
    ran.push(argv.join(' '))
    throw new HalError('COMMAND_FAILED', 'busctl failed with status 1')
  }
  const device = new Device(t, hostname, root => runningAt(root, { run }))
  device.put('/proc/sys/kernel/hostname', 'receiver\n')
  const hosts = device.text('/etc/hosts')
  await device.setting.write?.('lobby-01')
  t.equal(device.text('/etc/hostname'), 'lobby-01\n')
  t.equal(device.text('/etc/hosts'), hosts.replaceAll('receiver', 'lobby-01'))
  t.equal(device.text('/proc/sys/kernel/hostname'), 'receiver\n', 'not yet')
  await device.setting.activate?.('lobby-01', 'receiver', true)
  t.equal(device.text('/proc/sys/kernel/hostname'), 'lobby-01\n')
  await device.setting.activate?.('lobby-02.example', 'lobby-01', true)
  const avahi = 'busctl --auto-start=no call org.freedesktop.Avahi / org.freedesktop.Avahi.Server SetHostName s'
  t.strictSame(ran, [`${avahi} lobby-01`, `${avahi} lobby-02`], 'whether avahi runs or not')
})

test('a host table that is missing or unreadable is left alone', async t => {
  for (const text of [undefined, Buffer.from([0xff])]) {
    const device = new Device(t, hostname)
    device.put('/etc/hosts', text)
    await device.setting.write?.('lobby')
    t.equal(await device.value(), 'lobby')
    t.equal(await device.system.exists('/etc/hosts'), text !== undefined)
    if (text) t.same(readFileSync(join(device.root, 'etc/hosts')), Buffer.from(text))
  }
})
