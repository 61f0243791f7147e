/** The operations, on a real systemd. */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { Random, SEED } from '../support/random.ts'
import { NO_RIG } from './available.ts'
import { type Rig, startRig } from './rig.ts'

const CUTS = 8
/** Milliseconds in which a reset and the reboot after it begin. */
const RESET_MS = 1_200
/** The same for the reset alone. */
const SOON_MS = 100

const order = (rig: Rig, name: string) => rig.fetch(`/operations/${name}`, { method: 'POST' })

/**
 * The files and links of /etc with their modes, owners and contents. The service answers a moment before it has announced
 * itself to avahi, by a file there.
 */
async function etcOf(rig: Rig): Promise<readonly string[]> {
  const { deviceName } = (await rig.system()).value
  await eventually(async () => (await rig.shell('cat /etc/avahi/services/* || true')).includes(`>${deviceName}<`))
  const names = "find . ! -type d -printf '%p %y %m %U:%G %l\\n'"
  return (await rig.shell(`cd /etc && { ${names}; find . -type f -exec sha256sum {} +; } | sort`)).split('\n')
}

const CHANGES = [
  { hostname: 'changed', deviceName: 'Changed' },
  { timezone: 'Asia/Tokyo', locale: 'POSIX' },
  { ntp: { enabled: false, servers: ['192.0.2.1'] } },
  { moderation: { approval: 'moderator', timeoutS: 60 } },
  { airplay: { name: 'Changed', maxResolution: '1280x720' } },
  { airplay: { enabled: false } },
  { timezone: 'Europe/Brussels', ntp: { enabled: true } },
]

async function changeAll(t: Test, rig: Rig): Promise<void> {
  for (const change of CHANGES) t.equal((await rig.patch(change)).status, 200, JSON.stringify(change))
  const trial = { hostname: 'on-trial', airplay: { access: 'pin' } }
  t.equal((await rig.patch(trial, {}, '?confirmWithin=600')).status, 200, 'and one that nobody confirms')
}

t.test('operations', { skip: NO_RIG }, async t => {
  const rig = await startRig(t)
  const boots = async () =>
    (await rig.run(['journalctl', '--list-boots', '--quiet', '--no-pager'])).trim().split('\n').length

  await t.test('identify: without an LED and a screen it is refused', async t => {
    const answer = await order(rig, 'identify')
    t.equal(answer.status, 409)
    t.match(await answer.json(), {
      detail: 'The operation is not possible: the device has neither a screen nor an LED of its own.',
    })
  })

  await t.test('identify: it switches LEDs, which the sandbox makes an exception for', async t => {
    // The kernel of the host has no LED. The folders are laid out as on a Raspberry Pi.
    await rig.shell(`mkdir -p /run/leds/class/leds /run/leds/platform/leds/leds/ACT
cp -a /sys/class/net /run/leds/class
ln -s ../../devices/platform/leds/leds/ACT /run/leds/class/leds/ACT
cd /run/leds/platform/leds/leds/ACT && echo 'none [mmc0] timer' >trigger && echo 0 >brightness && echo 255 >max_brightness
mount --bind /run/leds/class /sys/class && mount --bind /run/leds/platform /sys/devices/platform`)
    await rig.restart()
    const led = (name: string) => rig.readFile(`/sys/class/leds/ACT/${name}`)
    const answer = await order(rig, 'identify')
    t.equal(answer.status, 202, await answer.text())
    t.match(await led('trigger'), /^none/)
    await eventually(async () => (await led('brightness')).startsWith('255'))
    await eventually(async () => (await led('brightness')).startsWith('0'))
    await rig.restart()
    t.match(await led('trigger'), /^mmc0/, 'a stop puts it back')
    const mounts = await rig.shell('cat /proc/$(systemctl show -P MainPID receiverd)/mountinfo')
    t.match(mounts, / \/sys ro,/)
    t.match(mounts, / \/sys\/devices\/platform\/leds rw,/)
  })

  await t.test('restart-receiver', async t => {
    const pid = () => rig.run(['systemctl', 'show', '-P', 'MainPID', 'uxplay'])
    const before = await pid()
    t.equal((await order(rig, 'restart-receiver')).status, 202)
    t.not(await pid(), before)
    await rig.run(['systemctl', 'stop', 'uxplay'])
    const refused = await order(rig, 'restart-receiver')
    t.equal(refused.status, 409)
    t.match(await refused.json(), { detail: 'None of these runs on this device: weston.service, uxplay.service.' })
    await rig.run(['systemctl', 'start', 'uxplay'])
  })

  await t.test('reboot: the answer arrives, every time', async t => {
    const began = await boots()
    for (let n = 1; n <= 5; n++) {
      const before = rig.pid
      const answer = await order(rig, 'reboot')
      t.equal(answer.status, 202)
      t.same(await answer.json(), { operation: 'reboot' })
      await rig.untilBackFrom(before)
      t.equal(await boots(), began + n)
    }
    const log = await rig.lastLog()
    t.ok(log.some(message => /\(the API key\) started the operation reboot$/.test(message)))
    t.ok(await rig.wasStopped(), 'shut down in order')
    const steps = (await rig.journal('--boot=-1', '_PID=1')).map(({ MESSAGE }) => MESSAGE ?? '')
    const at = (start: string) => steps.findIndex(step => step.startsWith(start))
    t.ok(at('Stopped avahi-daemon.service') > 0, 'avahi is stopped, too')
    t.ok(at('Stopped avahi-daemon.service') < at('Stopping dbus.service'), 'before D-Bus, without which it may hang')
  })

  await t.test('factory-reset: every file is as it was, the key is new, and it takes one reboot', async t => {
    const before = { etc: await etcOf(rig), system: (await rig.system()).value, boots: await boots() }
    const { key, pid } = rig
    await changeAll(t, rig)
    t.notSame(await etcOf(rig), before.etc)
    const token = await rig.receiverd('token', '--role', 'admin:rw')
    t.equal((await rig.fetchAs(token, '/operations/factory-reset', { method: 'POST' })).status, 403)
    const stream = await rig.stream()
    t.equal((await order(rig, 'factory-reset')).status, 202)
    await stream.ended
    await rig.untilBackFrom(pid)
    t.not(rig.key, key)
    for (const old of [key, token]) t.equal((await rig.fetchAs(old)).status, 401)
    t.same(await etcOf(rig), before.etc)
    const { network: _, ...rest } = before.system
    t.match((await rig.system()).value, rest)
    t.equal(await boots(), before.boots + 1)
    t.equal((await rig.shell('ls -A /var/lib/receiverd')).trim(), 'api-key')
    const log = await rig.lastLog()
    t.ok(log.includes('factory reset: done'))
    t.same(await rig.journal('--unit=receiverd', '--identifier=receiverd', '--priority=err'), [])
  })

  await t.test('the first request after a start may be the last', async t => {
    for (const name of ['reboot', 'factory-reset']) {
      const { key, pid } = rig
      // The socket keeps the request until systemd has started the service again.
      await rig.run(['systemctl', 'stop', 'receiverd.service'])
      t.equal((await order(rig, name)).status, 202, name)
      await rig.untilBackFrom(pid)
      t.equal(rig.key === key, name === 'reboot')
      t.ok(await rig.wasStopped(), 'shut down in order')
      t.same(await rig.journal('--boot=-1', '--unit=receiverd', '--identifier=receiverd', '--priority=err'), [])
    }
  })

  await t.test(`factory-reset: the power is cut ${CUTS} times at random`, async t => {
    const random = new Random(SEED)
    let [resets, olds] = [0, 0]
    const etc = await etcOf(rig)
    for (let n = 0; n < CUTS; n++) {
      await changeAll(t, rig)
      const { key } = rig
      const ordered = order(rig, 'factory-reset').then(
        ({ status }) => status,
        () => 0,
      )
      const ms = random.below(n % 2 === 0 ? RESET_MS : SOON_MS)
      await sleep(ms)
      // It may be between two boots.
      await eventually(async () =>
        rig.cutPower().then(
          () => true,
          () => false,
        ),
      )
      const status = await ordered
      // The start that finishes the reset reboots, before it serves anything.
      rig.boot().catch(() => undefined)
      await rig.untilBackFrom(0)
      const isReset = rig.key !== key
      if (isReset) {
        resets++
        t.same(await etcOf(rig), etc, `cut after ${ms} ms: all of it`)
      } else {
        olds++
        t.not(status, 202, `cut after ${ms} ms: nothing, and it was not promised`)
        t.match((await rig.system()).value, { deviceName: 'Changed', moderation: { timeoutS: 60 } })
      }
    }
    t.comment(`${resets} were finished, ${olds} had not begun`)
  })
})
