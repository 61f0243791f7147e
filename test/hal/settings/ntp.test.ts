import { spawnSync } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { errorCode } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/os/command.ts'
import { effectiveServers, ntp } from '../../../hal/settings/ntp.ts'
import { FakeSystemd } from '../../support/fakes/systemd.ts'
import { Device, runningAt } from '../support/setting-device.ts'

const UNIT = 'systemd-timesyncd.service'
const DROP_IN = '/etc/systemd/timesyncd.conf.d/50-receiverd.conf'
const ENABLED = `/etc/systemd/system/sysinit.target.wants/${UNIT}`

function systemctl(device: Device<ReturnType<typeof ntp>>, verb: string): string {
  return spawnSync('systemctl', [`--root=${device.root}`, verb, UNIT], { encoding: 'utf8' }).stdout.trim()
}

test('the servers are those of all files, in the order of timesyncd.conf(5)', t => {
  for (const [texts, servers, what] of [
    [['[Time]\nNTP=a b\n'], ['a', 'b'], 'two in a line'],
    [['[Time]\nNTP=a\nNTP=b\n'], ['a', 'b'], 'two lines'],
    [['[Time]\nNTP=a\n', '[Time]\nNTP=b\n'], ['a', 'b'], 'two files'],
    [['[Time]\nNTP=a\n', '[Time]\nNTP=\nNTP=b\n'], ['b'], 'an empty one discards those before it'],
    [['[Time]\nNTP=a\tb  a\n'], ['a', 'b'], 'a duplicate'],
    [['[Time]\nFallbackNTP=a\n#NTP=b\n[Other]\nNTP=c\n'], [], 'none'],
    [['', '[Time'], [], 'garbage'],
  ] as const)
    t.same(effectiveServers(texts), servers, what)
  t.end()
})

test('of drop-ins with the same name the last folder counts, and a link to /dev/null hides them', async t => {
  const device = new Device(t, ntp)
  const servers = async () => (await device.setting.read()).servers
  device.put('/etc/systemd/timesyncd.conf', '[Time]\nNTP=main\n')
  device.put('/usr/lib/systemd/timesyncd.conf.d/20-a.conf', '[Time]\nNTP=vendor\n')
  device.put('/etc/systemd/timesyncd.conf.d/10-b.conf', '[Time]\nNTP=ten\n')
  device.put('/etc/systemd/timesyncd.conf.d/30-no', '[Time]\nNTP=no\n')
  t.same(await servers(), ['main', 'ten', 'vendor'], 'by name, whatever the folder')
  device.put('/usr/local/lib/systemd/timesyncd.conf.d/20-a.conf', '[Time]\nNTP=local\n')
  t.same(await servers(), ['main', 'ten', 'local'])
  device.put('/run/systemd/timesyncd.conf.d/20-a.conf', '[Time]\nNTP=run\n')
  t.same(await servers(), ['main', 'ten', 'run'])
  device.put('/etc/systemd/timesyncd.conf.d/20-a.conf', '[Time]\nNTP=etc\n')
  t.same(await servers(), ['main', 'ten', 'etc'])
  const printed = spawnSync('systemd-analyze', [`--root=${device.root}`, 'cat-config', 'systemd/timesyncd.conf'], {
    encoding: 'utf8',
  }).stdout
  t.same(effectiveServers([printed]), await servers(), 'as systemd combines them')
  device.put('/etc/systemd/timesyncd.conf.d/20-a.conf', undefined)
  symlinkSync('/dev/null', join(device.root, 'etc/systemd/timesyncd.conf.d/20-a.conf'))
  t.same(await servers(), ['main', 'ten'])
})

test('servers are written to a drop-in that systemd reads last', async t => {
  const device = new Device(t, ntp)
  device.put('/etc/systemd/timesyncd.conf', '[Time]\nNTP=main\n')
  device.put('/etc/systemd/timesyncd.conf.d/10-b.conf', '[Time]\nNTP=ten\n')
  const cases = [['ntp.example.net', '192.0.2.1', '2001:db8::1'], ['other.example.net'], []]
  for (const servers of cases) {
    await device.setting.write?.({ enabled: true, servers })
    const expected = servers.length > 0 ? servers : ['main', 'ten']
    t.same((await device.setting.read()).servers, expected, 'without servers of ours, those of the system apply')
    const printed = spawnSync('systemd-analyze', [`--root=${device.root}`, 'cat-config', 'systemd/timesyncd.conf'], {
      encoding: 'utf8',
    }).stdout
    t.match(printed, `${device.root}${DROP_IN}`)
    t.same(effectiveServers([printed]), expected, 'by systemd-analyze as well')
  }
  device.put(DROP_IN, '# mine\n[Time]\nPollIntervalMaxSec=60\nNTP=old\n')
  await device.setting.write?.({ enabled: true, servers: ['a'] })
  t.equal(device.text(DROP_IN), '# mine\n[Time]\nPollIntervalMaxSec=60\nNTP=\nNTP=a\n', 'other lines are kept')
})

test('servers of another file stay there, and one that is read later refuses a change', async t => {
  const device = new Device(t, ntp)
  device.put('/etc/systemd/timesyncd.conf', '[Time]\nNTP=main\n')
  await device.setting.write?.({ enabled: false, servers: ['main'] })
  t.throws(() => device.text(DROP_IN), { code: 'ENOENT' })
  device.put('/etc/systemd/timesyncd.conf', '[Time]\nNTP=other\n')
  t.same((await device.setting.read()).servers, ['other'])

  const detail = '60-site.conf, which is read after 50-receiverd.conf, sets servers as well'
  const check = async (servers: string[], enabled = false) =>
    device.setting.check?.({ enabled, servers }, await device.setting.read())
  device.put('/etc/systemd/timesyncd.conf.d/60-site.conf', '[Time]\nPollIntervalMaxSec=60\n')
  t.same(await check(['a']), [])
  device.put('/etc/systemd/timesyncd.conf.d/60-site.conf', '[Time]\nNTP=site\n')
  for (const servers of [['a'], []]) t.same(await check(servers), [{ pointer: '/servers', detail }], `${servers}`)
  t.same(await check(['other', 'site'], true), [], 'the rest can be changed')
})

test('enabled means what it means to systemctl', async t => {
  const device = new Device(t, ntp)
  const enabled = async () => (await device.setting.read()).enabled
  t.same([await enabled(), systemctl(device, 'is-enabled')], [true, 'enabled'])
  for (const value of [false, true, true, false]) {
    await device.setting.write?.({ enabled: value, servers: [] })
    t.same([await enabled(), systemctl(device, 'is-enabled')], [value, value ? 'enabled' : 'disabled'])
  }
  systemctl(device, 'enable')
  t.equal(await enabled(), true, 'by others')
  device.put(ENABLED, 'no link')
  t.equal(await enabled(), false, 'a file instead of a link')
})

test('a masked unit is not enabled, and cannot be', async t => {
  const device = new Device(t, ntp)
  systemctl(device, 'mask')
  t.equal(systemctl(device, 'is-enabled'), 'masked')
  t.equal((await device.setting.read()).enabled, false)
  const error = await device.setting.write?.({ enabled: true, servers: [] }).catch(error => error)
  t.ok(errorCode(error) === 'COMMAND_FAILED')
  t.match(error, { message: 'systemd-timesyncd.service is masked' })
  const masked = { enabled: false, servers: [] }
  t.strictSame(await device.setting.check?.({ ...masked, enabled: true }, masked), [
    { pointer: '/enabled', detail: 'systemd-timesyncd.service is masked' },
  ])
  await device.setting.write?.({ enabled: false, servers: ['a'] })
  t.same(await device.setting.read(), { enabled: false, servers: ['a'] }, 'but its servers can be set')
})

test('without timesyncd, there is no such setting', async t => {
  const device = new Device(t, ntp)
  t.equal(await device.setting.unavailable?.(), undefined)
  device.put(`/usr/lib/systemd/system/${UNIT}`, undefined)
  t.match(await device.setting.unavailable?.(), /not installed/)
})

test('up to 8 servers are accepted: names, IPv4 and IPv6 addresses, no duplicates', async t => {
  const device = new Device(t, ntp)
  const eight = Array.from({ length: 8 }, (_, at) => `${at}.example.net`)
  const accepts = (...servers: unknown[]) => device.accepts({ enabled: true, servers })
  for (const servers of [
    [],
    eight,
    ['a', 'A.b', '192.0.2.1', '::1', '::ffff:192.0.2.1', '2001:DB8::1', '3com.com', 'a'.repeat(63)],
  ])
    t.ok(await accepts(...servers), servers.join(' '))
  t.notOk(await accepts(...eight, 'ninth'), 'nine')
  for (const [first, second] of [
    ['a', 'a'],
    ['a', 'A'],
    ['::1', '::1'],
    ['2001:db8::a', '2001:DB8::A'],
  ] as const)
    t.notOk(await accepts(first, second), `${first} twice`)
  for (const server of [
    '',
    ' ',
    'a b',
    'a,b',
    'a\nb',
    'a\n',
    'a;b',
    'a=b',
    '#a',
    '[a]',
    '-a',
    'a-',
    'a_b',
    'a..b',
    '.a',
    'a.',
    '.',
    '...',
    'be..ef',
    'a:123',
    '[::1]',
    '::1%eth0',
    ':',
    ':::',
    '1::2::3',
    'abc:',
    '12345::',
    '256.0.0.1',
    '1.2.3',
    '1.2.3.4.5',
    '01.2.3.4',
    'a.1',
    '127',
    'http://a',
    'a/b',
    '$(id)',
    'é',
    'a\0',
    `${'a'.repeat(64)}`,
    `${'a.'.repeat(127)}a`,
    7,
    null,
  ])
    t.notOk(await accepts(server), JSON.stringify(server))
  for (const value of [
    { enabled: true },
    { servers: [] },
    { enabled: 1, servers: [] },
    { enabled: true, servers: [], x: 1 },
    [],
    null,
  ])
    t.notOk(device.misfits(value).length === 0, JSON.stringify(value))
  const refusals = await device.setting.check?.(
    { enabled: true, servers: ['a', '1.2.3', 'A'] },
    { enabled: true, servers: [] },
  )
  t.same(
    refusals?.map(refusal => refusal.pointer),
    ['/servers/1', '/servers/2'],
    'each has its pointer',
  )
})

test('the service is restarted or stopped', async t => {
  const ran: string[] = []
  const device = new Device(t, ntp, root => {
    const { systemctl } = new FakeSystemd(root)
    const run: Run = argv => {
      ran.push(argv.join(' '))
      return systemctl(argv)
    }
    return runningAt(root, { run })
  })
  const { setting } = device
  const was = { enabled: true, servers: [] }
  const off = { enabled: false, servers: [] }
  await setting.write?.(off)
  await setting.activate?.(off, was, true)
  await setting.write?.(was)
  await setting.activate?.(was, off, true)
  await setting.write?.(was)
  t.same(ran, [
    `systemctl disable ${UNIT}`,
    `systemctl stop ${UNIT}`,
    `systemctl enable ${UNIT}`,
    `systemctl restart ${UNIT}`,
  ])
})

test('if the servers cannot be read, whether it is enabled still can', async t => {
  const device = new Device(t, ntp)
  const eight = Array.from({ length: 9 }, (_, at) => `s${at}`).join(' ')
  for (const [text, what] of [
    [Buffer.from([0xff]), 'not UTF-8'],
    [`[Time]\nNTP=${eight}\n`, 'nine servers'],
    ['[Time]\nNTP=a_b\n', 'an invalid name'],
    ['x'.repeat(70_000), 'a file that is too long'],
  ] as const) {
    device.put('/etc/systemd/timesyncd.conf', text)
    t.same(await device.value(), { enabled: true, servers: [] }, what)
  }
  device.put('/etc/systemd/timesyncd.conf', undefined)
  mkdirSync(join(device.root, 'etc/systemd/timesyncd.conf'))
  t.same(await device.value(), { enabled: true, servers: [] }, 'a folder')
})
