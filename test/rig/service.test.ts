/** receiverd under systemd: restarted beside clients, frozen, killed, and with a wrong option. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { NO_RIG } from './available.ts'
import { type Follower, follow, get } from './clients.ts'
import { type Rig, startRig } from './rig.ts'

const DEFAULTS = '/etc/default/receiverd'
/** Seconds. The unit that ships waits longer. */
const WATCHDOG_S = 15
/** Seconds that systemd takes to notice an end, and RestartSec=, with room for a busy machine. */
const PAUSE_S = 10

const show = async (rig: Rig, property: string) => (await rig.shell(`systemctl show -P ${property} receiverd`)).trim()

t.test('a restart under 200 streams and steady requests', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, { files: { [DEFAULTS]: 'RECEIVERD_STREAMS_PER_ADDRESS=512\n' } })
  const followers: Follower[] = []
  let isOver = false
  // A test that fails must not go on asking.
  t.teardown(() => {
    isOver = true
    for (const { close } of followers) close()
  })
  followers.push(...(await Promise.all(Array.from({ length: 200 }, () => follow(rig)))))
  const failures: string[] = []
  let asked = 0
  const asking = Array.from({ length: 4 }, async () => {
    while (!isOver) {
      asked++
      const status = await get(rig, '/system').catch(error => error.message)
      if (status !== 200) failures.push(String(status))
      await sleep(10)
    }
  })
  for (const round of ['before', 'after']) {
    for (let n = 0; n < 5; n++) t.equal((await rig.patch({ deviceName: `${round} ${n}` })).status, 200)
    if (round === 'before') await rig.restart()
  }
  isOver = true
  await Promise.all(asking)
  t.same(failures, [], `${asked} requests, none refused`)
  const { value } = await rig.system()
  await eventually(() => followers.every(({ copy }) => JSON.stringify(copy()) === JSON.stringify(value)), 60_000)
  t.pass('every stream came back, and has all of it')
})

t.test(
  'frozen, the watchdog restarts it; killed, it is back as soon as after a restart; with the same key',
  { skip: NO_RIG },
  async t => {
    const watchdog = '/etc/systemd/system/receiverd.service.d/watchdog.conf'
    const rig = await startRig(t, { files: { [watchdog]: `[Service]\nWatchdogSec=${WATCHDOG_S}\n` } })
    t.match(await rig.shell('systemctl cat receiverd'), /^WatchdogSec=60$/m, 'the unit that ships has one, too')
    t.equal(await show(rig, 'RestartUSec'), '200ms')
    // It says in time that it lives.
    await sleep(1.5 * WATCHDOG_S * 1_000)
    t.equal(await show(rig, 'NRestarts'), '0')
    const frozen = await show(rig, 'MainPID')
    await rig.shell(`kill -STOP ${frozen}`)
    await eventually(async () => !['0', frozen].includes(await show(rig, 'MainPID')))
    t.match(await rig.shell('journalctl --quiet --unit receiverd --output cat'), 'Watchdog timeout')
    t.equal(await get(rig, '/system'), 200)

    const secondsAfter = async (command: string) => {
      const began = performance.now()
      await rig.shell(command)
      t.equal(await get(rig, '/system'), 200, 'the same key')
      return (performance.now() - began) / 1_000
    }
    // The time of a start depends on the machine and on its other work.
    const restarted = await secondsAfter('systemctl restart receiverd')
    const killed = await secondsAfter(`kill -KILL ${await show(rig, 'MainPID')}`)
    t.ok(
      killed < 2 * restarted + PAUSE_S,
      `back after ${killed.toFixed(1)} s, where a restart takes ${restarted.toFixed(1)} s`,
    )
  },
)

t.test(
  'it listens on each socket of its unit, also on an address that the device gets later, and after a restart',
  { skip: NO_RIG },
  async t => {
    const more = '[Socket]\nListenStream=[::1]:8081\nListenStream=192.0.2.7:9090\n'
    const rig = await startRig(t, { files: { '/etc/systemd/system/receiverd.socket.d/more.conf': more } })
    await rig.shell('ip address add 192.0.2.7/32 dev lo')
    const urls = ['http://[::]:8080', 'http://192.0.2.7:9090', 'http://[::1]:8081']
    const fetchAll = `for (const url of ${JSON.stringify(urls)}) console.log((await fetch(url + "/api/v1/health")).status)`
    for (const when of ['after the boot', 'after a restart']) {
      t.equal(await rig.shell(`node --input-type=module --eval '${fetchAll}'`), '200\n200\n200\n', when)
      t.equal(await show(rig, 'StatusText'), `${urls.join(', ')}, 0 streams and held polls`)
      await rig.restart()
    }
  },
)

t.test(
  'an invalid option: not restarted by systemd, and slowly by clients that connect; corrected, it is back',
  { skip: NO_RIG },
  async t => {
    const rig = await startRig(t)
    const starts = async () =>
      Number(await rig.shell("journalctl --quiet --unit receiverd --output cat | grep -c 'not a whole number'"))
    const defaults = await rig.readFile(DEFAULTS)
    await rig.replaceFile(DEFAULTS, 'RECEIVERD_EVENTS=many\n')
    await t.rejects(rig.restart(), 'the restart fails')
    t.same([await show(rig, 'ActiveState'), await show(rig, 'NRestarts'), await starts()], ['failed', '0', 1])
    t.match(
      await rig.shell('journalctl --quiet --unit receiverd --priority err --output cat'),
      'RECEIVERD_EVENTS: "many" is not a whole number from 1 to 65536',
      'the log has it as an error',
    )

    const began = performance.now()
    for (let n = 0; n < 10; n++) {
      await fetch(`${rig.url}/api/v1/health`, { signal: AbortSignal.timeout(500) }).catch(() => undefined)
      await sleep(500)
    }
    // Each start waits 5 s before it fails.
    const started = await starts()
    t.ok(started <= 2 + (performance.now() - began) / 5_000, `${started} starts`)
    t.equal((await rig.shell('systemctl is-active receiverd.socket')).trim(), 'active', 'the port stays open')

    await rig.replaceFile(DEFAULTS, defaults)
    await rig.restart()
    t.equal(await get(rig, '/system'), 200)
  },
)
