/** The owner's end of a WireGuard tunnel, as in build/image/README.md, with wireguard-go(1), which does not need the kernel's. */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { examples } from '../support/readme.ts'
import { run } from '../support/run.ts'

/** The host's address for the device, which is behind QEMU's address translation. */
const HOST = '10.0.2.2'
/** In the examples of the README: the owner's address in the tunnel. */
const OWN = '10.99.0.1/16'
const [NETDEV = '', NETWORK = ''] = examples('build/image/README.md', 'Across networks', 'ini')
const [, DEVICE = ''] = /^Address=([\d.]+)\//m.exec(NETWORK) ?? []

const wg = (command: 'genkey' | 'pubkey', input = '') =>
  execFileSync('wg', [command], { input, encoding: 'utf8' }).trim()

export class Tunnel {
  /** The device's address in the tunnel. */
  readonly address = DEVICE
  /** The files for the card, by name. */
  readonly files: Readonly<Record<string, string>>
  readonly privateKey: string
  readonly #namespace: string

  private constructor(files: Readonly<Record<string, string>>, privateKey: string, namespace: string) {
    this.files = files
    this.privateKey = privateKey
    this.#namespace = namespace
  }

  /** Opens the tunnel for a device, in its own network, with new keys for both ends. */
  static async open(t: Pick<Test, 'teardown'>): Promise<Tunnel> {
    const name = `rd-wg-${process.pid % 10_000}`
    const [own, device] = [wg('genkey'), wg('genkey')]
    const keyFile = join(temporaryFolder(t), 'key')
    writeFileSync(keyFile, own, { mode: 0o600 })
    const program = spawn('wireguard-go', ['--foreground', name], { stdio: 'ignore' })
    t.teardown(() => program.kill())
    await eventually(() => existsSync(`/run/wireguard/${name}.sock`))
    const peer = ['peer', wg('pubkey', device), 'allowed-ips', `${DEVICE}/32`]
    execFileSync('wg', ['set', name, 'private-key', keyFile, ...peer])
    execFileSync('ip', ['netns', 'add', name])
    t.teardown(() => execFileSync('ip', ['netns', 'delete', name]))
    // The program keeps sending and receiving in the network in which it was started.
    for (const args of [
      ['link', 'set', name, 'netns', name],
      ['-n', name, 'address', 'add', OWN, 'dev', name],
      ['-n', name, 'link', 'set', name, 'up'],
    ])
      execFileSync('ip', args)
    // The program chooses a port once it is up.
    const port = await eventually(() => {
      const port = execFileSync('wg', ['show', name, 'listen-port'], { encoding: 'utf8' }).trim()
      return port !== '0' && port
    })
    const netdev = NETDEV.replace(/^PrivateKey=$/m, `PrivateKey=${device}`)
      .replace(/^PublicKey=$/m, `PublicKey=${wg('pubkey', own)}`)
      .replace(/^Endpoint=.*$/m, `Endpoint=${HOST}:${port}`)
    return new Tunnel({ 'wg0.netdev': netdev, 'wg0.network': NETWORK }, device, name)
  }

  /** The output of a program at the owner's end; undefined if it fails. */
  async answerTo(program: string, ...args: readonly string[]): Promise<string | undefined> {
    const { status, stdout } = await run('ip', ['netns', 'exec', this.#namespace, program, ...args])
    return status === 0 ? stdout : undefined
  }
}
