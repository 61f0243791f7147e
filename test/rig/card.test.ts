/** receiver.txt, by the units that ship. The booted card's tests see the partition made writable for a moment. */
import t from 'tap'
import { TestIssuer } from '../support/issuer.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

const KEY = 'a-key-that-its-owner-knows.0123456789'
const FOLDER = '/boot/firmware'
const DROP_IN = '/etc/systemd/system/receiverd.service.d/card.conf'

t.test('its settings are in force when the service serves, and leave the card', { skip: NO_RIG }, async t => {
  const text = `hostname=lobby\nname=Lobby\napi-key=${KEY}\n`
  const office = new TestIssuer('office')
  const rig = await startRig(t, {
    files: {
      [DROP_IN]: `[Service]\nEnvironment=RECEIVERD_CARD=${FOLDER}\n`,
      [`${FOLDER}/receiver.txt`]: text,
      [`${FOLDER}/issuers/office.json`]: office.file({ roles: ['admin:rw'] }),
    },
  })
  t.equal(rig.key, KEY)
  t.match((await rig.system()).value, { hostname: 'lobby', deviceName: 'Lobby' })
  t.equal((await rig.run(['uname', '-n'])).trim(), 'lobby')
  t.equal(await rig.readFile(`${FOLDER}/receiver.txt`), '#hostname=lobby\n#name=Lobby\n#api-key=\n')
  t.equal(await rig.run(['systemctl', 'show', '--property=Result', '--value', 'receiverd-card']), 'success\n')
  t.equal(await rig.shell('find /run/receiverd/card -type f ! -name folder'), '')
  t.equal(await rig.shell('stat -c "%a %U" /var/lib/receiverd/card'), '600 root\n')
  t.equal(await rig.shell(`ls ${FOLDER}/issuers`), '')
  const byIssuer = () => rig.fetchAs(office.token(), '/issuers')
  t.match(await (await byIssuer()).json(), { issuers: [{ name: 'office', source: 'card', roles: ['admin:rw'] }] })

  t.equal((await rig.patch({ deviceName: 'Changed' })).status, 200)
  await rig.run(['sh', '-c', `cat >>${FOLDER}/receiver.txt`], 'hostname=lob_by\nname=Other\n')
  await rig.restart()
  t.match((await rig.system()).value, { hostname: 'lobby', deviceName: 'Changed' }, 'a mistake: nothing is taken')
  t.match(await rig.readFile(`${FOLDER}/receiver-errors.txt`), /^line 4, hostname: invalid value/m)
  t.match(
    await rig.shell('journalctl --sync; journalctl -qu receiverd -p warning -o cat'),
    'receiver.txt: line 4, hostname: invalid value',
  )

  const { pid } = rig
  t.equal((await rig.fetch('/operations/factory-reset?card=remember', { method: 'POST' })).status, 400)
  t.equal((await rig.fetch('/operations/factory-reset', { method: 'POST' })).status, 202)
  await rig.untilBackFrom(pid)
  t.equal(rig.key, KEY, 'the card gave it')
  t.match((await rig.system()).value, { hostname: 'lobby', deviceName: 'Lobby' })
  t.equal((await byIssuer()).status, 200, 'an issuer of the card is there again')
  const again = rig.pid
  t.equal((await rig.fetch('/operations/factory-reset?card=forget', { method: 'POST' })).status, 202)
  await rig.untilBackFrom(again)
  t.not(rig.key, KEY)
  t.match((await rig.system()).value, { hostname: 'receiver' })
  t.equal((await byIssuer()).status, 401)
})
