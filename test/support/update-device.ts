/** A receiver that can be updated, with RAUC at the other end of busctl(1), and a network that can break off. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import type { Run } from '../../hal/os/command.ts'
import type { Page } from '../../src/api/built-page.ts'
import type { Clock } from '../../src/clock.ts'
import { deviceRoot } from './device.ts'
import { FakeRauc } from './fakes/rauc.ts'
import { FakeReceiver } from './fakes/receiver.ts'
import { type ServiceOptions, startTestService, type TestService } from './service.ts'

const FOLDER = 'data/update'
export const MIB = 1024 * 1024

export interface UpdateDevice {
  readonly rauc: FakeRauc
  readonly service: TestService
  readonly link: string
  readonly network: Network
  /** Jobs of systemctl(1) for the whole device. */
  readonly jobs: readonly string[]
  write(path: string, text: string): void
  /** Sets what RAUC reports about the bundle that is sent: its version, or why it is refused. */
  says(bundle: { readonly version: string } | string): void
  /** Restarts into a system of this version, which may have another page; the page stays open. */
  restartInto(slot: 'A' | 'B', version: string, page?: Page): Promise<void>
}

/** @param prepare Called before the service starts. */
export async function startUpdateDevice(
  t: Test,
  prepare: (device: Pick<UpdateDevice, 'rauc' | 'write'>) => void = () => undefined,
  page?: Page,
  clock?: Clock,
): Promise<UpdateDevice> {
  const root = deviceRoot(t)
  const rauc = new FakeRauc()
  const jobs: string[] = []
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  const boot = (slot: string, version: string) => {
    rauc.bootSlot = slot
    write('etc/os-release', `NAME=Receiver\nIMAGE_VERSION=${version}\n`)
    write('proc/cmdline', `rauc.slot=${slot}\n`)
  }
  boot('A', '1.0.0')
  prepare({ rauc, write })
  const options: ServiceOptions = { ...updatable(root, rauc, jobs), ...(page && { page }), ...(clock && { clock }) }
  let service = await startTestService(t, options)
  const network = await Network.start(t, service.port)
  return {
    rauc,
    get service() {
      return service
    },
    link: `http://127.0.0.1:${network.port}/#key=${service.key}`,
    network,
    jobs,
    write,
    says: bundle => bundleSays(root, rauc, bundle),
    async restartInto(slot, version, page) {
      await service.close()
      boot(slot, version)
      service = await startTestService(t, { ...options, ...(page && { page }) })
      network.target = service.port
    },
  }
}

/** Sets what RAUC reports about the bundle that is sent: its version, or why it is refused. */
export function bundleSays(root: string, rauc: FakeRauc, bundle: { readonly version: string } | string): void {
  const said = typeof bundle === 'string' ? bundle : { ...bundle, compatible: 'receiver' }
  for (const name of ['bundle', 'bundle.part']) rauc.bundles.set(join(root, FOLDER, name), said)
}

/** A running receiver that RAUC has started. @param jobs Collects the jobs of systemctl(1) for the whole device. */
export function updatable(root: string, rauc: FakeRauc, jobs: string[] = []): ServiceOptions {
  mkdirSync(join(root, FOLDER), { recursive: true })
  const receiver = new FakeReceiver(root).options
  const run: Run = async argv => {
    if (argv[0] === 'busctl') return rauc.run(argv)
    if (argv.includes('reboot')) {
      jobs.push('reboot')
      return ''
    }
    return receiver.run?.(argv) ?? ''
  }
  return { root, ...receiver, run, env: { RECEIVERD_UPDATE: `/${FOLDER}` } }
}

/** The network between the browser and the service. */
export class Network {
  target: number
  /** Bytes that a connection carries to the service before it breaks off, which happens once. */
  breaksAfter: number | undefined
  /** Whether nothing gets through. */
  isDown = false
  readonly #sockets = new Set<Socket>()
  readonly #server = createServer(socket => this.#carry(socket))

  private constructor(target: number) {
    this.target = target
  }

  static async start(t: Test, target: number): Promise<Network> {
    const network = new Network(target)
    await new Promise<void>(resolve => network.#server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => {
      network.breakOff()
      network.#server.close()
    })
    return network
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  breakOff(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #carry(socket: Socket): void {
    if (this.isDown) return void socket.destroy()
    const service = connect(this.target, '127.0.0.1')
    let carried = 0
    for (const end of [socket, service]) {
      this.#sockets.add(end)
      end
        .on('error', () => undefined)
        .on('close', () => {
          this.#sockets.delete(end)
          socket.destroy()
          service.destroy()
        })
    }
    socket.on('data', chunk => {
      carried += chunk.length
      if (carried <= (this.breaksAfter ?? Number.POSITIVE_INFINITY)) return
      this.breaksAfter = undefined
      this.isDown = this.staysDown
      this.breakOff()
    })
    socket.pipe(service).pipe(socket)
  }

  /** Whether the network stays down after the next break. */
  staysDown = false
}
