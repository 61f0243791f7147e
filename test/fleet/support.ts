/** The owner of a fleet: its file, its keys, the program, and a network on which devices are lost. */
import { createHash, createPublicKey, generateKeyPairSync, randomBytes, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import type { Test } from 'tap'
import { currentBundle, FLEET_PROGRAM } from '../../build/bundle-file.ts'
import { selfSigned } from '../../hal/format/certificate.ts'
import { DEADLINE_MS } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type Output, type RunOptions, run } from '../support/run.ts'

const PROGRAM = currentBundle(FLEET_PROGRAM)
/** Longer than any command of the tests takes, also on a busy machine. */
const COMMAND_MS = 8 * DEADLINE_MS

export interface Outcome {
  readonly device: string
  readonly state: string
  readonly reason?: string
  readonly note?: string
  readonly changes?: readonly { readonly pointer: string; readonly before: unknown; readonly after: unknown }[]
}

/** A key and a certificate of a device's own, with its pin and its fingerprint. @param more Names besides its own. */
export function certificateOf(commonName: string, more: readonly string[] = []) {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const from = Date.now() - 60_000
  const cert = selfSigned({
    key: privateKey,
    organization: 'Test',
    commonName,
    names: [commonName, '127.0.0.1', ...more],
    from,
    to: from + 86_400_000,
    serial: randomBytes(16),
  })
  const spki = createPublicKey(privateKey).export({ type: 'spki', format: 'der' })
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert,
    pin: `sha256//${createHash('sha256').update(spki).digest('base64')}`,
    fingerprint: new X509Certificate(cert).fingerprint256,
  }
}

/** A folder with a fleet file and a key file. */
export class Owner {
  readonly folder: string
  readonly #commandMs: number

  /** @param commandMs Longer than any command takes. */
  constructor(t: Test, commandMs = COMMAND_MS) {
    this.folder = temporaryFolder(t)
    this.#commandMs = commandMs
  }

  path(name: string): string {
    return join(this.folder, name)
  }

  write(name: string, text: string, mode = 0o600): void {
    writeFileSync(this.path(name), text, { mode })
  }

  read(name: string): string {
    return readFileSync(this.path(name), 'utf8')
  }

  has(name: string): boolean {
    return existsSync(this.path(name))
  }

  /** Runs the program in the folder. @param started Gets the process. */
  run(args: readonly string[], env: NodeJS.ProcessEnv = {}, started?: RunOptions['started']): Promise<Output> {
    const options = { cwd: this.folder, withinMs: this.#commandMs, started }
    return run(process.execPath, [PROGRAM, ...args], env, options)
  }

  /** The same with `--json`: what became of each device. */
  async outcomes(
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
  ): Promise<{ readonly status: number | null; readonly of: Record<string, Outcome> }> {
    const { status, stdout, stderr } = await this.run([...args, '--json'], env)
    if (stdout === '') throw new Error(stderr)
    const { devices } = JSON.parse(stdout) as { devices: readonly Outcome[] }
    return { status, of: Object.fromEntries(devices.map(outcome => [outcome.device, outcome])) }
  }
}

/** How a network treats a connection, by the first lines of its request. */
export type Fate =
  | 'pass'
  /** The request does not arrive. */
  | 'lose it'
  /** The request arrives, and the answer does not. */
  | 'lose the answer'
  /** The same, and a server in front of the device answers for it. */
  | 'answer for it'
  /** It answers so, and the request does not arrive. */
  | 'refuse it'
  /** The request does not arrive, and is answered as by a device on which somebody else mirrors. */
  | 'show one at a time'
  /** The request arrives, and is answered as by a device that has restarted, and has forgotten the change. */
  | 'forget it'
  /** From here on, nothing gets through. */
  | 'break down'

/** As nginx answers (build/package/nginx.conf) if the service ends while it has a request. */
const RESTARTING = problem(503, 'unavailable', 'The service is restarting.')
/** As the service answers a confirmation (src/system). */
const NO_TRIAL = problem(409, 'conflict', 'No change is on trial.')
/** As the service answers `admit?replace=false` if it shows one device at a time (src/sessions). */
const IN_THE_WAY = problem(409, 'in-the-way', '"Ann" is mirroring; this device shows one at a time.')

function problem(status: number, type: string, detail: string): string {
  const body = JSON.stringify({ type: `urn:receiverd:problem:${type}`, title: type, status, detail })
  return `HTTP/1.1 ${status} ${type}\r\nContent-Type: application/problem+json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`
}

/** A network in front of a device; by default all passes. */
export class Network {
  fateOf: (head: string) => Fate = () => 'pass'
  readonly #port: number
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(port: number, tls?: { readonly key: string; readonly cert: string }) {
    this.#port = port
    const carry = (socket: Socket) => this.#carry(socket)
    this.#server = tls ? createTlsServer(tls, carry) : createServer(carry)
  }

  /** @param tls The key and the certificate of a device that is reached by TLS. */
  static async to(t: Test, port: number, tls?: { readonly key: string; readonly cert: string }): Promise<Network> {
    const network = new Network(port, tls)
    network.#server.listen(0, '127.0.0.1')
    await once(network.#server, 'listening')
    t.teardown(() => network.breakDown())
    return network
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  breakDown(): void {
    this.#server.close()
    this.breakOff()
  }

  /** Ends all connections. What is sent from then on passes. */
  breakOff(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #carry(near: Socket): void {
    this.#keep(near)
    near.once('data', (head: Buffer) => {
      const fate = this.fateOf(head.toString('latin1'))
      if (fate === 'break down') return this.breakDown()
      if (fate === 'lose it') return void near.destroy()
      if (fate === 'refuse it') return near.end(RESTARTING)
      if (fate === 'show one at a time') return near.end(IN_THE_WAY)
      const far = connect(this.#port, '127.0.0.1')
      this.#keep(far)
      far.write(head)
      near.pipe(far)
      if (fate === 'pass') far.pipe(near)
      // The device has answered, and so it has done what it was asked.
      else
        far.once('data', () => {
          if (fate === 'lose the answer') near.destroy()
          else near.end(fate === 'forget it' ? NO_TRIAL : RESTARTING)
        })
      near.on('close', () => far.destroy())
      far.on('close', () => near.end())
    })
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => this.#sockets.delete(socket))
  }
}

/** An address where connections are accepted, and nothing is ever answered. @param accepted Called for each. */
export async function silentAddress(t: Test, accepted: (socket: Socket) => void = () => undefined): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket.on('error', () => undefined))
    accepted(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}
