/** The owner's end of a WireGuard tunnel, as in build/image/README.md, with wireguard-go(1), which does not need the kernel's. */
import { execFileSync } from 'node:child_process'
import type { Test } from 'tap'
import { examples } from '../support/readme.ts'
import { run } from '../support/run.ts'
import { newKeyPair, portOf, startWireGuard, wg } from '../support/wireguard.ts'

const [NETDEV = '', NETWORK = ''] = examples('build/image/README.md', 'Across networks', 'ini')

/** In the device's tunnel file: the name of the owner's end. */
export const OWNERS_NAME = /^Endpoint=(.+):\d+$/m.exec(NETDEV)?.[1] ?? ''
/** The host's address for the device, which is behind QEMU's address translation. */
export const HOST = '10.0.2.2'
/** In the examples of the README: the owner's address in the tunnel. */
const OWN = '10.99.0.1/16'
const [, DEVICE = ''] = /^Address=([\d.]+)\//m.exec(NETWORK) ?? []

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
    const own = await startWireGuard(t, name)
    const device = newKeyPair()
    wg('set', name, 'peer', device.publicKey, 'allowed-ips', `${DEVICE}/32`)
    execFileSync('ip', ['netns', 'add', name])
    t.teardown(() => execFileSync('ip', ['netns', 'delete', name]))
    // The program keeps sending and receiving in the network in which it was started.
    for (const args of [
      ['link', 'set', name, 'netns', name],
      ['-n', name, 'address', 'add', OWN, 'dev', name],
      ['-n', name, 'link', 'set', name, 'up'],
    ])
      execFileSync('ip', args)
    const port = await portOf(name)
    const netdev = NETDEV.replace(/^PrivateKey=$/m, `PrivateKey=${device.privateKey}`)
      .replace(/^PublicKey=$/m, `PublicKey=${own}`)
      .replace(/^(Endpoint=.*):\d+$/m, `$1:${port}`)
    return new Tunnel({ 'wg0.netdev': netdev, 'wg0.network': NETWORK }, device.privateKey, name)
  }

  /** The output of a program at the owner's end; undefined if it fails. */
  async answerTo(program: string, ...args: readonly string[]): Promise<string | undefined> {
    const { status, stdout } = await run('ip', ['netns', 'exec', this.#namespace, program, ...args])
    return status === 0 ? stdout : undefined
  }
}
