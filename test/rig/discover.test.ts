/** DNS-SD, by a real avahi. */
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { NO_RIG } from './available.ts'
import { browse } from './mdns.ts'
import { startRig } from './rig.ts'

t.test('the device is found by its name, and the name follows a change', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  const found = async () => JSON.parse(await rig.receiverd('discover', '--json')) as { name: string }[]
  const named = (name: string) => eventually(async () => (await found()).find(receiver => receiver.name === name))
  const { value } = await rig.system()
  t.match(await named(String(value.deviceName)), {
    hostname: /\.local$/,
    addresses: [rig.address, rig.address6],
    port: 8080,
    url: `${rig.url}/`,
  })
  await rig.patch({ deviceName: 'Größe & <Raum>; 4.1', groups: ['lobby', 'floor-4'] })
  t.match(await named('Größe & <Raum>; 4.1'), { groups: ['lobby', 'floor-4'] })
  t.match(await rig.receiverd('discover'), /^NAME +URL +HOST.*\nGröße & <Raum>; 4\.1 +http:/)
  await rig.run(['rm', '/usr/bin/avahi-browse'])
  await t.rejects(rig.receiverd('discover'), /receiverd: avahi-browse is not installed; discover needs avahi-utils/)
})

t.test('the name in mDNS follows the host name, and so does AirPlay', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  // While a service points to the old name, avahi-browse waits for that.
  const browsed = (type: string) => rig.shell(`timeout 2 avahi-browse -rp ${type} || true`)
  const hasName = (type: string, name: string) =>
    eventually(async () => (await browsed(type)).includes(`;${name}.local;${rig.address};`))
  await hasName('_airplay._tcp', 'receiver')
  t.equal((await rig.patch({ hostname: 'lobby-7.example' })).status, 200)
  await hasName('_receiverd._tcp', 'lobby-7')
  await hasName('_airplay._tcp', 'lobby-7')
  t.equal((await rig.shell('hostname')).trim(), 'lobby-7.example')
})

t.test('an avahi that crashes, or whose D-Bus does, is back soon, with all names', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  const isAnnounced = async (type: string) => (await browse(type, rig.hostAddress)).length > 0
  const areAnnounced = async () => (await isAnnounced('_receiverd._tcp')) && (await isAnnounced('_airplay._tcp'))
  await eventually(areAnnounced)
  const pid = () => rig.shell('systemctl show --property=MainPID --value avahi-daemon')
  // More often than systemd would by default start it in 10 s.
  for (let crashes = 0; crashes < 6; crashes++) {
    const before = await pid()
    await rig.shell(`kill -SEGV ${before}`)
    await eventually(async () => !['0\n', before].includes(await pid()))
  }
  await eventually(areAnnounced)
  t.pass('that of receiverd, and that of UxPlay')
  const before = await pid()
  await rig.shell('kill -SEGV $(systemctl show --property=MainPID --value dbus)')
  await eventually(async () => !['0\n', before].includes(await pid()))
  await eventually(areAnnounced)
  await rig.shell('systemctl stop avahi-daemon.socket avahi-daemon')
  t.equal(await rig.shell('systemctl is-active avahi-daemon || true'), 'inactive\n', 'stopped by hand, it stays so')
})

t.test('unless it is switched off', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  await eventually(async () => (await rig.receiverd('discover', '--json')) !== '[]')
  await rig.replaceFile('/etc/default/receiverd', 'RECEIVERD_ANNOUNCE=off\n')
  await rig.restart()
  await eventually(async () => (await rig.receiverd('discover', '--json')) === '[]')
  t.same(JSON.parse(await rig.receiverd('discover', '--json')), [])
  t.equal(await rig.receiverd('discover'), 'No receiver was found on this network.')
})
