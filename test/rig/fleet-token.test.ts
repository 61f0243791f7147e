/** The timer of the package receiverd-fleet, which keeps fresh the token that Prometheus reads devices with. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { currentBundle, FLEET_PROGRAM, REPOSITORY } from '../../build/bundle-file.ts'
import { eventually } from '../support/eventually.ts'
import { TestIssuer } from '../support/issuer.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

const UNITS = ['receiverd-fleet-token.service', 'receiverd-fleet-token.timer'] as const
const [SERVICE, TIMER] = UNITS
const KEY = '/etc/receiverd-fleet/issuer.pem'
const TOKEN = '/run/receiverd-fleet/prometheus.token'
const HOUR_S = 3_600

const unitFiles = Object.fromEntries(
  UNITS.map(name => [
    `/usr/lib/systemd/system/${name}`,
    readFileSync(join(REPOSITORY, 'src/fleet/prometheus', name), 'utf8'),
  ]),
)

t.test('the timer of a token', { skip: NO_RIG }, async t => {
  const issuer = new TestIssuer('prometheus')
  const rig = await startRig(t, {
    files: {
      ...unitFiles,
      '/usr/bin/receiverd-fleet': readFileSync(currentBundle(FLEET_PROGRAM), 'utf8'),
      '/etc/receiverd/issuers/prometheus.json': issuer.file({ roles: ['admin:r'] }),
    },
  })
  // As Debian's package of Prometheus has it.
  await rig.shell(
    'chmod 755 /usr/bin/receiverd-fleet && useradd --system --user-group prometheus && install -d -m 700 /etc/receiverd-fleet',
  )
  const asPrometheus = (command: string) =>
    rig.run(['setpriv', '--reuid=prometheus', '--regid=prometheus', '--clear-groups', 'sh', '-c', command])
  const read = async () => (await asPrometheus(`cat ${TOKEN}`)).trim()
  const hasToken = () =>
    read().then(
      token => token !== '',
      () => false,
    )
  const shown = async (unit: string, property: string) =>
    (await rig.run(['systemctl', 'show', `--property=${property}`, '--value', unit])).trim()
  const logged = async () => (await rig.journal(`--unit=${SERVICE}`)).map(({ MESSAGE = '' }) => MESSAGE)
  const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

  await t.test('without its key, it says what to make, and a later start has the token', async t => {
    await rig.run(['systemctl', 'enable', '--now', TIMER])
    await eventually(async () => (await shown(SERVICE, 'Result')) === 'exit-code')
    t.match(
      (await logged()).join('\n'),
      /issuer-key: there is no \/etc\/receiverd-fleet\/issuer\.pem; .* says how to make/,
    )
    t.notMatch((await logged()).join('\n'), /at .*\.cjs:\d+/, 'no stack')

    await rig.run(['sh', '-c', `umask 077 && cat >${KEY}`], 'no key at all\n')
    await t.rejects(rig.run(['systemctl', 'start', SERVICE]))
    t.match((await logged()).join('\n'), /the file has no private key in PEM/)

    const pem = issuer.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
    await rig.run(['sh', '-c', `cat >${KEY}`], pem)
    await rig.run(['systemctl', 'restart', TIMER])
    await eventually(hasToken)
    t.notMatch((await logged()).join('\n'), pem.split('\n')[1] ?? '', 'nothing secret')
  })

  await t.test('Prometheus reads the token, and nobody else does; the key stays hidden from it', async t => {
    t.equal(await rig.shell(`stat -c '%a %U %G' ${TOKEN}`), '640 root prometheus\n')
    t.equal(await rig.shell('stat -c "%a %U %G" /run/receiverd-fleet'), '750 root prometheus\n')
    await t.rejects(asPrometheus(`cat ${KEY}`), /Permission denied/)
    await t.rejects(
      rig.run(['setpriv', '--reuid=nobody', '--regid=nogroup', '--clear-groups', 'cat', TOKEN]),
      /Permission denied/,
    )
    const token = await read()
    t.equal((await rig.fetchAs(token, '/metrics')).status, 200)
    t.equal((await rig.fetchAs(token, '/system', { method: 'PATCH' })).status, 403)
    const { iat, exp } = claimsOf(token)
    t.equal(exp - iat, 12 * HOUR_S)
  })

  await t.test('it is renewed long before it expires, and can be read at any moment', async t => {
    const next = Date.parse(await shown(TIMER, 'NextElapseUSecRealtime'))
    const { exp } = claimsOf(await read())
    t.ok(next > Date.now(), 'the next time is to come')
    t.ok(exp * 1000 - next > 7 * HOUR_S * 1000, 'a renewal that fails is tried twice more before the token expires')

    // The same timer, each second.
    const often = '[Timer]\nOnCalendar=\nOnCalendar=*:*:0/1\nAccuracySec=1us\n'
    await rig.run(
      ['sh', '-c', `mkdir -p /etc/systemd/system/${TIMER}.d && cat >/etc/systemd/system/${TIMER}.d/often.conf`],
      often,
    )
    await rig.run(['systemctl', 'daemon-reload'])
    await rig.run(['systemctl', 'restart', TIMER])
    const first = await read()
    const seen = new Set<string>()
    await eventually(async () => {
      seen.add(await read())
      return seen.size >= 4
    })
    t.notOk(seen.has(''), 'never empty')
    for (const token of [first, ...seen]) t.equal((await rig.fetchAs(token, '/metrics')).status, 200)
    await rig.run(['systemctl', 'stop', TIMER])
    await eventually(async () => ['inactive', 'failed'].includes(await shown(SERVICE, 'ActiveState')))
    t.equal(await rig.shell('ls -A /run/receiverd-fleet'), 'prometheus.token\n', 'no other file is left')
  })

  await t.test('after a restart there is a token at once', async t => {
    await rig.shell(`rm -r /etc/systemd/system/${TIMER}.d`)
    await rig.reboot()
    await eventually(hasToken)
    t.equal((await rig.fetchAs(await read(), '/metrics')).status, 200)
  })

  await t.test('an owner without that group is told so', async t => {
    await rig.shell('userdel prometheus; groupdel prometheus 2>/dev/null; true')
    await t.rejects(rig.run(['systemctl', 'start', SERVICE]))
    const lines = await rig.journal('_PID=1', `UNIT=${SERVICE}`)
    t.match(lines.map(({ MESSAGE = '' }) => MESSAGE).join('\n'), /group/i)
  })
})
