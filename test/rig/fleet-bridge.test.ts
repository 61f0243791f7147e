/** The unit that shows receivers on an MQTT broker, on a real systemd. The device is the one that it runs on. */
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { currentBundle, FLEET_PROGRAM } from '../../build/bundle-file.ts'
import { certificateOf } from '../fleet/support.ts'
import { eventually } from '../support/eventually.ts'
import { Mosquitto } from '../support/mosquitto.ts'
import { needs } from '../support/needs.ts'
import { readText } from '../support/readme.ts'
import { NO_RIG } from './available.ts'
import { startRig } from './rig.ts'

const UNIT = 'receiverd-fleet-bridge'
const FOLDER = '/etc/receiverd-fleet'

t.test(
  'as a user of its own, with files that root alone can read',
  {
    skip: NO_RIG || needs('mosquitto', 'mosquitto_sub'),
  },
  async t => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const rig = await startRig(t, {
      files: {
        '/usr/bin/receiverd-fleet': readFileSync(currentBundle(FLEET_PROGRAM), 'utf8'),
        [`/etc/systemd/system/${UNIT}.service`]: readText(`src/fleet/bridge/${UNIT}.service`),
        [`/etc/systemd/system/${UNIT}-keys.path`]: readText(`src/fleet/bridge/${UNIT}-keys.path`),
        [`/etc/systemd/system/${UNIT}-keys.service`]: readText(`src/fleet/bridge/${UNIT}-keys.service`).replace(
          'sleep 10',
          'sleep 0',
        ),
        [`${FOLDER}/bridge.pem`]: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
        [`${FOLDER}/mqtt.password`]: 'password-of-mqtt\n',
        '/etc/receiverd/issuers/bridge.json': JSON.stringify({
          publicKey: publicKey.export({ type: 'spki', format: 'pem' }),
          roles: ['admin:rw', 'moderator:r'],
        }),
      },
    })
    const certificate = certificateOf(rig.hostAddress)
    const broker = await Mosquitto.start(t, certificate, 'password-of-mqtt', rig.hostAddress)
    const file = `bridge:
  broker: mqtts://${rig.hostAddress}:${broker.port}
  ca: mqtt-ca.pem
  user: ${broker.user}
  password: { file: mqtt.password }
  issuer: { name: bridge, key: bridge.pem }
  allow: [identify]
devices:
  room-4: { address: "http://127.0.0.1:8080", settings: { hostname: receiver } }
`
    await rig.shell(`cat >${FOLDER}/mqtt-ca.pem <<'END'
${certificate.cert}END
cat >${FOLDER}/fleet.yaml <<'END'
${file}END
chmod 700 ${FOLDER}; chmod 600 ${FOLDER}/*; chmod 755 /usr/bin/receiverd-fleet; systemctl daemon-reload`)
    const watcher = broker.watch(t)
    await rig.shell(`systemctl start ${UNIT}`)
    await eventually(() => watcher.text('receiverd/room-4/availability') === 'online')
    await eventually(() => watcher.text('homeassistant/device/receiverd/room-4/config'))
    t.notMatch(await rig.shell(`systemctl show --property=ExecMainPID --value ${UNIT} | xargs ps -o uid= -p`), /^ *0$/m)

    // The device may have no LED and no screen, but it has understood.
    await broker.publish('receiverd/room-4/command', 'identify')
    const { ok, error } = await eventually(() => watcher.json('receiverd/room-4/result'))
    t.ok(ok || /neither a screen nor an LED/.test(error), error)

    await rig.shell(`systemctl stop ${UNIT}`)
    await eventually(() => watcher.text('receiverd/bridge') === 'offline')
    t.match(await rig.shell(`systemctl show --property=Result --value ${UNIT}`), /^success$/m)
    const said = (await rig.journal('--unit', UNIT)).map(({ MESSAGE }) => MESSAGE).join('\n')
    t.match(said, /room-4 is online/)
    t.notMatch(said, /warning|denied|not permitted/i)

    // A mistake is said once, and not tried again and again.
    const state = async () => (await rig.shell(`systemctl show --property=ActiveState --value ${UNIT}`)).trim()
    await rig.shell(`cp ${FOLDER}/fleet.yaml /run; sed -i /room-4/d ${FOLDER}/fleet.yaml; systemctl start ${UNIT}`)
    await eventually(async () => (await state()) === 'failed')
    t.match(await rig.shell(`systemctl show --property=NRestarts --value ${UNIT}`), /^0$/m)

    // New keys may be what mends it. A bridge that somebody has disabled or stopped stays so.
    await rig.shell(`cp /run/fleet.yaml ${FOLDER}; systemctl start ${UNIT}-keys.service`)
    t.equal(await state(), 'failed')
    await rig.shell(`systemctl enable ${UNIT}; systemctl start ${UNIT}-keys.path; echo '#' >${FOLDER}/keys.csv`)
    await eventually(async () => (await state()) === 'active')
    const pid = () => rig.shell(`systemctl show --property=MainPID --value ${UNIT}`)
    const before = await pid()
    await rig.shell(`echo '#' >>${FOLDER}/keys.csv`)
    await eventually(async () => (await state()) === 'active' && (await pid()) !== before)
    await rig.shell(`systemctl stop ${UNIT}-keys.path ${UNIT}; systemctl start ${UNIT}-keys.service`)
    t.equal(await state(), 'inactive')
  },
)
