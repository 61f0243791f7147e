/** Good or back, on a real systemd and a real RAUC: the duties of a version on trial, and its fate if it fails them. */
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { NO_RIG } from './available.ts'
import { type Rig, startRig } from './rig.ts'

const UPDATE = '/data/update'
const JUDGE = 'receiverd-judge.service'
const MARKS = '/var/lib/marks'
/** While it is there, RAUC cannot mark anything. */
const REFUSES = '/var/lib/refuses'
/** A judgement takes 18 s instead of 4.5 minutes, and at the lower speed 54 s: to mend what is wrong before it. */
const [SPEED, LOWER_SPEED] = [15, 5]
const JUDGED_MS = 180_000

const FILES = {
  '/etc/rauc/system.conf': `[system]
compatible=rig
bootloader=custom
bundle-formats=verity
[handlers]
bootloader-custom-backend=/usr/local/lib/backend
[slot.rootfs.0]
device=/var/lib/a
type=raw
bootname=A
[slot.rootfs.1]
device=/var/lib/b
type=raw
bootname=B
`,
  '/usr/local/lib/fast.cjs': `const now = performance.now.bind(performance)
Object.defineProperty(performance, 'now', { value: () => ${SPEED} * now() })
`,
  // Each service has a /proc of its own, with the host's command line.
  [`/etc/systemd/system/${JUDGE}.d/rig.conf`]: `[Service]
ProtectProc=default
Environment="NODE_OPTIONS=--require /usr/local/lib/fast.cjs"
`,
  // A stopped receiverd stays so while it is judged, however long that takes on a busy host.
  '/etc/systemd/system/receiverd.service.d/patient.conf': '[Service]\nWatchdogSec=0\n',
  [`${UPDATE}/.keep`]: '',
}
/** Remembers what RAUC marks. */
const BACKEND = `#!/bin/sh
case $1 in
get-primary) echo A ;;
get-state) echo good ;;
set-state) [ ! -e ${REFUSES} ] && echo "$2 $3" >>${MARKS} ;;
esac
`
const TRIAL = {
  slot: 'A',
  version: '1.1.0',
  from: '1.0.0',
  expect: { units: ['receiverd.service', 'uxplay.service', 'nginx.service'], screen: false, interfaces: ['eth0'] },
}

const read = async (rig: Rig, name: string) =>
  JSON.parse(await rig.shell(`cat ${UPDATE}/${name}.json 2>/dev/null || echo null`))
const marks = async (rig: Rig) => rig.shell(`cat ${MARKS} 2>/dev/null || true`)
const begin = (rig: Rig, more = {}) =>
  rig.replaceFile(`${UPDATE}/trial.json`, `${JSON.stringify({ ...TRIAL, ...more })}\n`)
const show = async (rig: Rig, property: string, unit = JUDGE) =>
  (await rig.run(['systemctl', 'show', '--value', `--property=${property}`, unit])).trim()

/** Judges, without a restart, and tells the result of the unit. */
async function judged(rig: Rig): Promise<string> {
  await rig.run(['systemctl', 'start', '--no-block', JUDGE])
  await eventually(async () => !['activating', 'reloading'].includes(await show(rig, 'ActiveState')), JUDGED_MS)
  const result = await show(rig, 'Result')
  t.comment(await rig.shell(`journalctl --quiet --no-pager --output cat --lines 20 --unit ${JUDGE}`))
  await rig.shell(`systemctl reset-failed ${JUDGE} || true`)
  return result
}

t.test('good or back', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, { isTls: true, slot: 'A', files: { ...FILES, '/usr/local/lib/backend': BACKEND } })
  await rig.run(['chmod', '755', '/usr/local/lib/backend'])
  await rig.run(['systemctl', 'restart', 'rauc.service'])
  const isUp = async () => (await show(rig, 'ActiveState', 'nginx.service')) === 'active' && rig.isListening(7001)
  await eventually(isUp)
  // Until the next boot, nothing restarts it.
  await rig.shell(`for unit in ${JUDGE} receiverd-late.service; do
  mkdir -p /run/systemd/system/$unit.d && printf '[Unit]\\nFailureAction=none\\n' >/run/systemd/system/$unit.d/none.conf
done
systemctl daemon-reload`)
  // The start has marked it, too, if RAUC was set up by then.
  await rig.shell(`rm -f ${MARKS}`)

  await t.test('without a trial, a start is marked as good, whatever UxPlay does', async t => {
    await rig.run(['systemctl', 'stop', 'uxplay.service'])
    t.equal(await judged(rig), 'success')
    t.equal(await show(rig, 'ConditionResult'), 'no')
    await rig.run(['systemctl', 'start', 'receiverd-good.service'])
    t.equal(await marks(rig), 'A good\n')
    await begin(rig, { slot: 'B' })
    t.equal(await judged(rig), 'success', 'nor is the system judged that was gone back to')
    await rig.run(['systemctl', 'start', 'receiverd-good.service'])
    t.equal(await marks(rig), 'A good\nA good\n')
    await rig.run(['systemctl', 'start', 'uxplay.service'])
  })

  await t.test('a start that cannot be marked is marked later', async t => {
    const good = 'receiverd-good.service'
    t.equal(await show(rig, 'RestartUSec', good), '30s')
    await rig.shell(`mkdir -p /run/systemd/system/${good}.d ${UPDATE} && rm -f ${UPDATE}/trial.json && touch ${REFUSES}
printf '[Service]\\nRestartSec=100ms\\n' >/run/systemd/system/${good}.d/fast.conf && systemctl daemon-reload`)
    const before = await marks(rig)
    await rig.run(['systemctl', 'start', '--no-block', good])
    await eventually(async () => Number(await show(rig, 'NRestarts', good)) > 6)
    t.equal(await marks(rig), before)
    await rig.shell(`rm ${REFUSES}`)
    await eventually(async () => (await marks(rig)) === `${before}A good\n`)
    await eventually(async () => (await show(rig, 'SubState', good)) === 'dead')
    t.equal(await show(rig, 'Result', good), 'success')
    // A version on trial is left to the judge, and that is no failure.
    await begin(rig)
    await rig.run(['systemctl', 'start', good])
    t.equal(await show(rig, 'SubState', good), 'dead')
    t.equal(await marks(rig), `${before}A good\n`)
    await rig.shell(`rm ${MARKS} ${UPDATE}/trial.json && echo A good >${MARKS} && echo A good >>${MARKS}`)
  })

  await t.test('a version that does what worked before is good', async t => {
    await begin(rig)
    await rig.run(['systemctl', 'start', 'receiverd-good.service'])
    t.equal(await marks(rig), 'A good\nA good\n', 'not before it is judged')
    t.equal(await judged(rig), 'success')
    t.equal(await marks(rig), 'A good\nA good\nA good\n')
    t.same([await read(rig, 'trial'), (await read(rig, 'last')).outcome], [null, 'installed'])
  })

  await t.test('wherever the owner has receiverd listen', async t => {
    const sockets = '/etc/systemd/system/receiverd.socket.d'
    const configuration = '/etc/receiverd/nginx.conf'
    const restart = 'systemctl daemon-reload && systemctl restart receiverd.socket receiverd nginx'
    await rig.shell(`mkdir -p ${sockets} /etc/systemd/system/receiverd.service.d
printf '[Socket]\\nListenStream=\\nListenStream=127.0.0.1:8123\\n' >${sockets}/zz-tls.conf
printf '[Service]\\nEnvironment=RECEIVERD_TLS_PORT=8443\\n' >/etc/systemd/system/receiverd.service.d/zz-port.conf
sed -i.old 's/127.0.0.1:8080/127.0.0.1:8123/; s/443 ssl/8443 ssl/' ${configuration} && ${restart}`)
    t.match(JSON.parse(await rig.receiverd('config', 'save')), { settings: {} })
    t.match(await rig.receiverd('key', 'show', '--verbose'), ` https://${rig.address}:8443/api/v1/system`)
    await begin(rig)
    t.equal(await judged(rig), 'success')
    await rig.shell(`rm ${sockets}/zz-tls.conf /etc/systemd/system/receiverd.service.d/zz-port.conf
mv ${configuration}.old ${configuration} && ${restart}`)
    await eventually(isUp)
  })

  const BROKEN = [
    [
      'UxPlay',
      'systemctl stop uxplay.service',
      'UxPlay does not listen (uxplay.service is inactive)',
      'systemctl start uxplay.service',
    ],
    [
      'nginx',
      'systemctl kill --signal=STOP nginx.service',
      'nginx does not answer by TLS',
      'systemctl kill --signal=CONT nginx.service',
    ],
    [
      'receiverd',
      'systemctl kill --kill-whom=main --signal=STOP receiverd.service',
      'receiverd does not answer; nginx does not answer by TLS',
      'systemctl kill --kill-whom=main --signal=CONT receiverd.service',
    ],
  ] as const
  for (const [name, breakIt, reason, mendIt] of BROKEN)
    await t.test(`${name} does not answer`, async t => {
      const before = await marks(rig)
      await begin(rig)
      await rig.shell(breakIt)
      t.equal(await judged(rig), 'exit-code')
      await rig.shell(mendIt)
      t.match(await read(rig, 'verdict'), { slot: 'A', version: '1.1.0', reason })
      t.match(await read(rig, 'trial'), TRIAL, 'it is still on trial')
      t.equal(await marks(rig), before)
      await eventually(isUp)
    })

  await t.test('a version whose Node does not start, and one that is late', async t => {
    await begin(rig)
    await rig.run(['mount', '--bind', '/usr/bin/false', '/usr/bin/receiverd'])
    t.equal(await judged(rig), 'exit-code')
    await rig.run(['umount', '/usr/bin/receiverd'])
    await t.rejects(rig.run(['systemctl', 'start', 'receiverd-late.service']))
    await begin(rig, { slot: 'B' })
    await rig.run(['systemctl', 'start', 'receiverd-late.service'])
    t.equal(await show(rig, 'ActiveState', 'receiverd-late.timer'), 'active')
  })

  await t.test('then the device restarts', async t => {
    await begin(rig)
    await rig.run(['systemctl', 'disable', '--now', 'nginx.service'])
    await rig.run(['systemctl', 'mask', 'nginx.service'])
    const before = rig.pid
    // On a busy host, there is time to mend it between the second start and its judgement.
    await rig.shell(`sed -i 's/=> ${SPEED} \\*/=> ${LOWER_SPEED} */' /usr/local/lib/fast.cjs && sync`)
    await rig.cutPower()
    await rig.boot()
    const first = rig.pid
    t.not(first, before)
    await eventually(async () => rig.pid !== first, JUDGED_MS)
    await rig.untilBackFrom(first)
    t.match(await read(rig, 'verdict'), { reason: /^nginx does not answer by TLS \(nginx.service is inactive\)$/ })
    await rig.run(['systemctl', 'unmask', 'nginx.service'])
    await rig.run(['systemctl', 'start', 'nginx.service'])
    await eventually(async () => (await read(rig, 'trial')) === null, JUDGED_MS)
    t.match(await read(rig, 'last'), { outcome: 'installed' }, 'a later attempt succeeds')
    t.equal(await read(rig, 'verdict'), null)
  })
})
