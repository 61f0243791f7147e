/** The machines themselves, and receiverd as a unit in them. */
import t from 'tap'
import { endToEnd } from '../e2e/suite.ts'
import { eventually } from '../support/eventually.ts'
import { NO_RIG } from './available.ts'
import { REPOSITORY } from './disk.ts'
import { type Rig, startRig } from './rig.ts'

const isRunning = (rig: Rig) => rig.run(['systemctl', 'is-system-running', '--wait'])

t.test('a machine', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)

  await t.test('runs, and no unit has failed', async t => {
    t.equal(await isRunning(rig), 'running\n')
    t.equal(await rig.run(['systemctl', 'list-units', '--failed', '--no-legend']), '')
    t.match(await rig.run(['systemctl', '--version']), /^systemd 257 /)
    t.equal(await rig.readFile('/proc/1/comm'), 'systemd\n')
    t.same(await rig.journal('--priority=err'), [])
  })

  await t.test('has nothing of the host in reach', async t => {
    await t.rejects(rig.run(['ls', REPOSITORY]), 'its files')
    t.notMatch(await rig.run(['ps', '-e', '-o', 'args']), 'tap', 'its processes')
    for (const path of ['/proc/sys/vm/swappiness', '/sys/kernel/uevent_helper'])
      await t.rejects(rig.run(['sh', '-c', 'echo 1 >"$0"', path]), /Read-only file system/, path)
    // To the present time, which does no harm if it is permitted after all.
    await t.rejects(rig.run(['date', '--set=now']), /Operation not permitted/, 'its clock')
    await t.rejects(rig.run(['mknod', '/root/disk', 'b', '8', '0']), /Operation not permitted/, 'its disks')
    await t.rejects(rig.run(['dmesg']), /Operation not permitted/, 'its log')
  })

  await t.test('receiverd is the unit that ships, with its socket and its sandbox', async t => {
    const show = (unit: string, property: string) => rig.run(['systemctl', 'show', '--value', '-P', property, unit])
    t.equal(await show('receiverd.socket', 'Accept'), 'no\n')
    t.match(await show('receiverd.service', 'TriggeredBy'), 'receiverd.socket')
    t.match(await rig.run(['systemctl', 'status', 'receiverd']), /Status: "http:\S+, 0 streams and held polls"/)
    const exposure = await rig.run(['systemd-analyze', 'security', '--no-pager', 'receiverd'])
    t.match(exposure, /level for receiverd.service: 1\.\d OK/)
    t.equal(await rig.run(['stat', '--format=%a:%U', '/var/lib/receiverd/api-key']), '600:root\n')
  })

  await t.test('the log is that of the journal', async t => {
    const script = 'printf "\\033[31mred\\033[0m\\n\\377bad\\n<3>wrong\\n"; head -c 5000 /dev/zero | tr "\\0" x'
    await rig.run(['systemd-run', '--quiet', '--wait', '--unit=weston', 'sh', '-c', script])
    const messages = async (query: string) => {
      const answer = await rig.fetch(`/logs?unit=weston.service${query}`)
      const text = await answer.text()
      if (answer.status !== 200) throw new Error(text)
      return (JSON.parse(text) as { message: string }[]).map(({ message }) => message)
    }
    const printed = ['red', '\u{fffd}bad', 'wrong', '(a message of over 4 KiB)']
    // systemd's own messages reach the journal by another socket: on a busy machine, before the program's last output.
    const logged = await eventually(async () => {
      const found = await messages('')
      return found.length === printed.length + 2 && found
    })
    const ofSystemd = /^(Started weston\.service|weston\.service: Deactivated)/
    t.same(
      logged.filter(message => !ofSystemd.test(message)),
      printed,
    )
    t.same(await messages('&priority=3'), ['wrong'])
    t.equal((await messages('&lines=2')).length, 2)
    const text = await (await rig.fetch('/logs', { headers: { Accept: 'text/plain' } })).text()
    t.match(text, / receiverd\.service info: Started receiverd\.service/)
  })

  await t.test('end to end', t => endToEnd(t, rig))

  await t.test('another one runs beside it, and both are reached by IPv4 and IPv6', async t => {
    const other = await startRig(t)
    t.not(other.address, rig.address)
    t.not(other.key, rig.key)
    for (const { address, address6 } of [rig, other])
      for (const host of [address, `[${address6}]`])
        t.equal((await fetch(`http://${host}:8080/api/v1/health`)).status, 200, host)
  })
})

t.test('the power of a machine', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  const boots = async () => (await rig.run(['journalctl', '--list-boots', '--quiet', '--no-pager'])).trim().split('\n')
  const { key } = rig

  t.equal((await rig.patch({ deviceName: 'Kept' })).status, 200)
  await rig.cutPower()
  await t.rejects(rig.fetch('/health'), { cause: { code: /^(E|UND_ERR)/ } }, 'off')
  await t.rejects(rig.run(['true']), { message: 'it is switched off' })
  await rig.boot()
  t.equal(rig.key, key)
  t.match((await rig.system()).value, { deviceName: 'Kept' })
  t.equal((await boots()).length, 2)
  t.equal(await isRunning(rig), 'running\n')

  await rig.reboot()
  t.pass('back after a reboot of its own')
  t.equal((await boots()).length, 3)

  await rig.powerOff()
  await t.rejects(rig.run(['true']), { message: 'it is switched off' })
  await rig.boot()
  t.ok(await rig.wasStopped(), 'shut down in order')
})

t.test('a fleet gives its machines their keys', { skip: NO_RIG }, async t => {
  const credential = '/etc/credstore/receiverd.api-key'
  const rig = await startRig(t, { files: { [credential]: 'fleet-key_0001.of~room.4\n' } })
  t.equal(rig.key, 'fleet-key_0001.of~room.4')
  t.equal((await rig.fetch('/system')).status, 200)
  await rig.replaceFile(credential, 'short')
  await rig.restart()
  await rig.loadKey()
  t.equal(rig.key, 'fleet-key_0001.of~room.4', 'a key that is there is kept')

  await rig.run(['rm', '/var/lib/receiverd/api-key'])
  await t.rejects(rig.restart())
  const [message] = (await rig.journal('--unit=receiverd', '--priority=err', '--identifier=receiverd')).map(
    ({ MESSAGE }) => MESSAGE,
  )
  t.match(message, /^the credential receiverd\.api-key is not a key: give 22 to 128 characters/)
})
