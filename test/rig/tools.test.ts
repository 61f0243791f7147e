/** The system's own tools agree with the API. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { unitStates } from '../../hal/os/unit-state.ts'
import { eventually } from '../support/eventually.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

t.test(
  'the tools of the system say what a PATCH wrote, and what they change is an event',
  { skip: NO_RIG },
  async t => {
    const rig = await startRig(t)
    const stream = await rig.stream()
    const saw = async (patch: object) => t.match((await stream.event())?.data, patch)
    const set = async (patch: object) => {
      const answer = await rig.patch(patch)
      t.equal(answer.status, 200, JSON.stringify(patch))
      t.match(await answer.json(), patch)
      await saw(patch)
    }

    await set({ hostname: 'lobby-7', deviceName: 'Lobby 7' })
    const names = await rig.shell('hostnamectl')
    t.match(names, /Static hostname: lobby-7$/m)
    t.match(names, /Pretty hostname: Lobby 7$/m)
    t.notMatch(names, 'Transient hostname')
    t.equal((await rig.shell('hostname')).trim(), 'lobby-7')
    await rig.shell('hostnamectl set-hostname --static lobby-8')
    await saw({ hostname: 'lobby-8' })
    await rig.shell('hostnamectl set-hostname --pretty "Lobby 8"')
    await saw({ deviceName: 'Lobby 8' })

    await set({ timezone: 'Europe/Brussels' })
    t.equal((await rig.shell('timedatectl show --property Timezone --value')).trim(), 'Europe/Brussels')
    t.match(await rig.shell('date +%Z'), /^CES?T\n$/)
    await rig.shell('timedatectl set-timezone Asia/Tokyo')
    await saw({ timezone: 'Asia/Tokyo' })

    await set({ locale: 'POSIX' })
    t.match(await rig.shell('localectl status'), /System Locale: LANG=POSIX$/m)
    // Debian forbids localectl(1) to set it; whether it obeys is a matter of the order of files in a folder.
    await rig.shell('systemd-firstboot --force --locale=C.UTF-8')
    await saw({ locale: 'C.UTF-8' })

    await set({ ntp: { enabled: false } })
    t.equal((await rig.shell('timedatectl show --property NTP --value')).trim(), 'no')
    await rig.shell('timedatectl set-ntp true')
    await saw({ ntp: { enabled: true } })
    await set({ ntp: { servers: ['192.0.2.7'] } })
    // timesyncd does not run where the clock is the host's.
    t.match(await rig.shell('systemd-analyze cat-config systemd/timesyncd.conf'), /^NTP=192\.0\.2\.7$/m)
    stream.close()
  },
)

t.test('the states of units are read as systemctl prints them', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  const sleeps = (more = '') => `${more}[Service]\nType=oneshot\nExecStart=sleep 60\n`
  await rig.replaceFile('/run/systemd/system/first.service', sleeps())
  await rig.replaceFile('/run/systemd/system/second.service', sleeps('[Unit]\nAfter=first.service\n'))
  await rig.shell('systemctl daemon-reload; systemctl start --no-block first second; systemctl stop uxplay')
  const system = { run: (argv: readonly string[]) => rig.shell(argv.join(' ')) }
  const states = await unitStates(system, ['first', 'second', 'uxplay', 'avahi-daemon', 'not-installed'])
  t.match(Object.fromEntries(states), {
    first: { state: 'activating', isActive: false, hasJob: true },
    second: { state: 'inactive', isActive: false, hasJob: true, run: '' },
    uxplay: { state: 'inactive', isActive: false, hasJob: false, run: /^[0-9a-f]{32}$/ },
    'avahi-daemon': { state: 'active', isActive: true, hasJob: false },
    'not-installed': { state: 'inactive', isActive: false, hasJob: false, run: '' },
  })
})

t.test('on the image, a daemon of systemd that crashes again and again is started again', { skip: NO_RIG }, async t => {
  const dropIn = '/etc/systemd/system/systemd-.service.d/10-restart.conf'
  const rig = await startRig(t, {
    files: { [dropIn]: readFileSync(join(REPOSITORY, 'build/image/overlay', dropIn), 'utf8') },
  })
  const crash = 'systemctl kill --signal=KILL systemd-networkd || true; sleep 0.3'
  await rig.shell(`for n in $(seq 20); do ${crash}; done`)
  await eventually(async () => (await rig.shell('systemctl is-active systemd-networkd || true')).trim() === 'active')
  t.pass('it is back')
})
