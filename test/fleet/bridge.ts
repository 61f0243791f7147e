/** `receiverd-fleet bridge`, and a site for it: a broker, two devices, and the files of their owner. */
import { type ChildProcess, spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { currentBundle, FLEET_PROGRAM } from '../../build/bundle-file.ts'
import { openSession } from '../../src/sessions/engine-client.ts'
import { Receiver } from '../interop/support.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import type { Discovery } from '../support/home-assistant.ts'
import { Mosquitto, type Watcher } from '../support/mosquitto.ts'
import { readText } from '../support/readme.ts'
import { PIXEL, TestEngine } from '../support/sessions.ts'
import { certificateOf, Network, Owner } from './support.ts'

const PROGRAM = currentBundle(FLEET_PROGRAM)

/** `receiverd-fleet bridge`, which runs until it is told to stop. */
export class Bridge {
  readonly log: string[] = []
  readonly process: ChildProcess

  constructor(t: Test, owner: Owner, env: NodeJS.ProcessEnv = {}, options: readonly string[] = []) {
    this.process = spawn(process.execPath, [PROGRAM, 'bridge', ...options], {
      cwd: owner.folder,
      env: { PATH: process.env.PATH, ...env },
      stdio: ['ignore', 'inherit', 'pipe'],
    })
    if (this.process.stderr) createInterface({ input: this.process.stderr }).on('line', line => this.log.push(line))
    t.teardown(() => this.process.kill('SIGKILL'))
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    const exited = once(this.process, 'exit')
    this.process.kill(signal)
    return (await exited)[0]
  }

  count(pattern: RegExp): number {
    return this.log.filter(line => pattern.test(line)).length
  }
}

export const PASSWORD = 'correct-horse-battery-staple'
/** Where Home Assistant looks for devices of this bridge. */
export const DISCOVERY = 'homeassistant/device/receiverd'
/** The serial number of the first device. */
export const LOBBY = '100000007'
/** The part of the fleet file in the README, which stands in a list. */
const CONFIGURATION =
  /^ {3}```yaml\n( {3}bridge:\n.*?)^ {3}devices:/ms
    .exec(readText('src/fleet/README.md'))?.[1]
    ?.replace(/^ {3}/gm, '') ?? ''

export interface Device {
  readonly receiver: Receiver
  readonly network: Network
  /** Lines in which it was asked for something. */
  readonly asked: string[]
  /** Somebody who wants to mirror. */
  readonly ask: (name: string) => Promise<TestEngine>
}

export async function startDevice(
  t: Test,
  publicKey: string,
  serial: string,
  tls?: { key: string; cert: string },
): Promise<Device> {
  const engines = join(temporaryFolder(t), 'engines')
  const root = deviceRoot(t)
  writeFileSync(join(root, 'proc/device-tree/serial-number'), `${serial}\0`)
  const receiver = new Receiver(root, { env: { RECEIVERD_ENGINES: engines } })
  t.teardown(() => receiver.kill())
  await receiver.start()
  await receiver.patch({ moderation: { approval: 'moderator' } })
  const issuer = { publicKey, roles: ['admin:rw', 'moderator:rw'] }
  const headers = { 'Content-Type': 'application/json' }
  const put = { method: 'PUT', body: JSON.stringify(issuer), headers }
  t.match(await receiver.fetch('/issuers/bridge', put), { ok: true })
  const network = await Network.to(t, receiver.port, tls)
  const asked: string[] = []
  network.fateOf = head => {
    asked.push(head.split('\r\n', 1)[0] ?? '')
    return 'pass'
  }
  const ask = async (name: string) => {
    const link = await openSession(engines, { ...PIXEL, name })
    t.teardown(link.close)
    return new TestEngine(link)
  }
  return { receiver, network, asked, ask }
}

/** A site: a broker, two devices, and the owner's files. */
export async function startSite(t: Test, allow: string) {
  const owner = new Owner(t)
  const own = certificateOf('mqtt')
  const broker = await Mosquitto.start(t, own, PASSWORD)
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  owner.write('bridge.pem', privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
  owner.write('mqtt-ca.pem', own.cert)
  owner.write('mqtt.password', `${PASSWORD}\n`)
  const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const certificate = certificateOf('lobby')
  const lobby = await startDevice(t, pem, LOBBY, certificate)
  const hall = await startDevice(t, pem, '100000008')
  const lines = {
    lobby: `  lobby: { address: "${lobby.network.address}", serial: "${LOBBY}", pin: "${certificate.pin}" }\n`,
    'hall.2': `  hall.2: { address: "http://${hall.network.address}", settings: { hostname: receiver } }\n`,
  }
  t.match(CONFIGURATION, 'broker: mqtts://mqtt.example.org\n')
  const bridge = CONFIGURATION.replace('mqtt.example.org', `127.0.0.1:${broker.port}`).replace(
    /allow: .*/,
    `allow: ${allow}`,
  )
  const write = (names: readonly (keyof typeof lines)[]) =>
    owner.write('fleet.yaml', `${bridge}devices:\n${names.map(name => lines[name]).join('')}`)
  write(['lobby', 'hall.2'])
  return { owner, broker, lobby, hall, write }
}

export function discoveriesIn(watcher: Watcher): readonly Discovery[] {
  return watcher.topics.filter(topic => topic.startsWith(DISCOVERY)).map(topic => watcher.json(topic) as Discovery)
}

export const untilOnline = (watcher: Watcher, names: readonly string[]) =>
  eventually(() => names.every(name => watcher.text(`receiverd/${name}/availability`) === 'online'))
