/** The checks of a version on trial, on real sockets, with systemd as a fake. */
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer as createSocketServer, type Server } from 'node:net'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { CertificateFiles } from '../../hal/os/certificate.ts'
import { type Addresses, System } from '../../hal/os/system.ts'
import { type Doors, isConnected, look } from '../../src/update/checks.ts'
import { expectations } from '../../src/update/expect.ts'
import type { Expectations } from '../../src/update/trial.ts'
import { deviceRoot } from '../support/device.ts'
import { commands } from '../support/fakes/commands.ts'
import { FakeSystemd } from '../support/fakes/systemd.ts'

const TOKEN = 'a.b.c'
const SYNC = '0100000000000c0002000000'
/** A deletion of the id, as weston sends it first, and the callback's end, with a serial number. */
const DONE = ['0100000001000c0002000000', '0200000000000c0007000000']
const LISTENING =
  '   0: 00000000:1B59 00000000:0000 0A 00000000:00000000 00:00000000 00000000   109        0 12345 1 0 100 0 0 10 0\n'
const NAMES = ['receiverd.service', 'uxplay.service', 'weston.service', 'nginx.service']
const UNITS = '/usr/lib/systemd/system'
const ALL: Expectations = { units: NAMES, screen: true, interfaces: ['eth0'] }

/** A receiver that does all it should. */
class Receiver {
  readonly root: string
  readonly systemd: FakeSystemd
  readonly system: System
  addresses: Addresses = { lo: ['127.0.0.1/8'], eth0: ['192.0.2.40/24'] }
  /** The status of each answer. */
  status: (authorization: string | undefined) => number = text => (text === `Bearer ${TOKEN}` ? 200 : 401)
  isDrawing = true
  doors: Doors = { api: { host: '127.0.0.1', port: 0 }, tlsPort: 0, token: async () => TOKEN }
  readonly #servers: Server[] = []

  constructor(root: string) {
    this.root = root
    for (const name of [...NAMES, 'screen@.service'])
      this.write(join(UNITS, name), '[Service]\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n')
    this.systemd = new FakeSystemd(root, [...NAMES, 'screen@idle.service'])
    const { systemctl } = this.systemd
    this.system = new System(root, {
      running: true,
      run: commands({ systemctl }),
      addresses: () => this.addresses,
    })
  }

  async serve(): Promise<void> {
    const answer: RequestListener = ({ headers }, response) => {
      response.writeHead(this.status(headers.authorization)).end()
    }
    const files = new CertificateFiles(this.system)
    await files.make({ commonName: 'a', names: ['a'], from: Date.now() - 1_000, to: Date.now() + 100_000 })
    const pem = (name: string) => readFileSync(join(this.root, 'etc/receiverd/tls', name))
    const tls = createTlsServer({ key: pem('key.pem'), cert: pem('certificate.pem') }, answer)
    const weston = createSocketServer(socket => {
      socket
        .on('error', () => undefined)
        .on('data', bytes => {
          if (this.isDrawing && bytes.toString('hex') === SYNC) for (const event of DONE) socket.write(event, 'hex')
        })
    })
    this.write('proc/net/tcp', LISTENING)
    mkdirSync(join(this.root, 'run/weston'), { recursive: true })
    const api = await this.#listen(createServer(answer))
    const tlsPort = await this.#listen(tls)
    this.doors = { ...this.doors, api: { host: '127.0.0.1', port: api }, tlsPort }
    weston.listen(join(this.root, 'run/weston/wayland-1'))
    await once(weston, 'listening')
    this.#servers.push(weston)
  }

  close(): void {
    for (const server of this.#servers) server.close()
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true })
    writeFileSync(join(this.root, path), text)
  }

  stop(...units: readonly string[]): Promise<unknown> {
    return this.systemd.systemctl(['systemctl', 'stop', ...units])
  }

  async #listen(server: Server): Promise<number> {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    this.#servers.push(server)
    return (server.address() as AddressInfo).port
  }
}

async function receiver(t: Test): Promise<Receiver> {
  const device = new Receiver(deviceRoot(t))
  await device.serve()
  t.teardown(() => device.close())
  return device
}

const monitor = (device: Receiver, status: string) => {
  for (const name of ['card0-HDMI-A-1', 'card0-HDMI-A-2']) device.write(`sys/class/drm/${name}/status`, `${status}\n`)
}
const cable = (device: Receiver, carrier: string | undefined) => {
  device.addresses = { lo: ['127.0.0.1/8'], eth0: ['169.254.3.4/16', 'fe80::1/64'] }
  const file = 'sys/class/net/eth0/carrier'
  if (carrier === undefined) rmSync(join(device.root, file))
  else device.write(file, carrier)
}

/** WireGuard has its address, and a carrier, as soon as it is set up (ARPHRD_NONE in <linux/if_arp.h>). */
const tunnel = (device: Receiver) => {
  device.addresses = { ...device.addresses, wg0: ['10.8.0.2/24'] }
  device.write('sys/class/net/wg0/type', '65534\n')
  device.write('sys/class/net/wg0/carrier', '1\n')
}

const CASES: readonly (readonly [
  name: string,
  change: (device: Receiver) => unknown,
  wanting: readonly string[],
  expect?: Partial<Expectations>,
])[] = [
  ['all is well', () => undefined, []],
  [
    'receiverd has stopped',
    device => device.stop('receiverd.service'),
    ['receiverd does not answer (receiverd.service is inactive)'],
  ],
  [
    'nginx answers, and receiverd does not',
    device => {
      device.status = () => 503
    },
    ['receiverd does not answer', 'nginx does not answer by TLS'],
  ],
  [
    'the key is refused',
    device => {
      device.status = () => 401
    },
    ['receiverd does not answer'],
  ],
  [
    'there is no key',
    device => {
      device.doors = { ...device.doors, token: () => Promise.reject(new Error('none')) }
    },
    ['receiverd does not answer'],
  ],
  [
    'no TLS where it should be',
    device => {
      device.doors = { ...device.doors, tlsPort: device.doors.api.port }
    },
    ['nginx does not answer by TLS'],
  ],
  ['UxPlay does not listen', device => device.write('proc/net/tcp', ''), ['UxPlay does not listen']],
  [
    'UxPlay has stopped',
    device => device.stop('uxplay.service'),
    ['UxPlay does not listen (uxplay.service is inactive)'],
  ],
  [
    'AirPlay was switched off since',
    async device => {
      await device.systemd.systemctl(['systemctl', 'disable', 'uxplay.service'])
      await device.stop('uxplay.service')
      device.write('proc/net/tcp', '')
    },
    [],
  ],
  [
    'the new version has no UxPlay',
    async device => {
      await device.stop('uxplay.service')
      rmSync(join(device.root, UNITS, 'uxplay.service'))
    },
    ['UxPlay does not listen (uxplay.service is inactive)'],
  ],
  [
    'weston hangs',
    device => {
      device.isDrawing = false
    },
    ['weston does not draw'],
  ],
  [
    'weston has stopped',
    device => device.stop('weston.service'),
    ['weston does not draw (weston.service is inactive)'],
  ],
  [
    'nothing can be shown',
    device => device.stop('screen@idle.service'),
    ['weston does not draw (screen@idle.service is inactive)'],
  ],
  [
    'the monitor was unplugged since',
    async device => {
      monitor(device, 'disconnected')
      await device.stop('weston.service')
    },
    [],
  ],
  [
    'there was no monitor at the installation',
    device => device.stop('weston.service', 'screen@idle.service'),
    [],
    { screen: false },
  ],
  [
    'the kernel has no driver for the screen',
    async device => {
      rmSync(join(device.root, 'sys/class/drm'), { recursive: true })
      await device.stop('weston.service')
    },
    ['weston does not draw (weston.service is inactive)'],
  ],
  ['a cable without an address', device => cable(device, '1\n'), ['there is no address']],
  ['the cable was pulled since', device => cable(device, '0\n'), []],
  [
    'a tunnel through a cable without an address',
    device => {
      cable(device, '1\n')
      tunnel(device)
    },
    ['there is no address'],
  ],
  [
    'a tunnel that counted at the installation, and the cable was pulled since',
    device => {
      cable(device, '0\n')
      tunnel(device)
    },
    [],
    { interfaces: ['eth0', 'wg0'] },
  ],
  ['an interface that nobody has brought up', device => cable(device, undefined), ['there is no address']],
  [
    'the kernel has no driver for the network',
    device => {
      cable(device, '0\n')
      rmSync(join(device.root, 'sys/class/net/eth0'), { recursive: true })
    },
    ['there is no address'],
  ],
  [
    'Wi-Fi without a network',
    device => {
      cable(device, '0\n')
      device.write('sys/class/net/wlan0/carrier', '0\n')
    },
    ['there is no address'],
    { interfaces: ['wlan0'] },
  ],
  ['there was no address at the installation', device => cable(device, '1\n'), [], { interfaces: [] }],
  [
    'the address is at another interface now',
    device => {
      device.addresses = { end0: ['192.0.2.41/24'] }
    },
    [],
  ],
  [
    'a unit that only a later version knows',
    () => undefined,
    ['b.service does not run (b.service is inactive)'],
    { units: ['b.service'] },
  ],
]

for (const [name, change, wanting, expect] of CASES)
  t.test(name, async t => {
    const device = await receiver(t)
    await change(device)
    const expected = { ...ALL, ...expect }
    t.same((await look(device.system, expected, device.doors)).wanting, wanting)
    t.equal(await isConnected(device.system, expected), !wanting.includes('there is no address'))
  })

t.test('nobody listens', async t => {
  const device = await receiver(t)
  device.close()
  t.same((await look(device.system, ALL, device.doors)).wanting, [
    'receiverd does not answer',
    'weston does not draw',
    'nginx does not answer by TLS',
  ])
})

t.test('a unit that was started again is told from one that went on', async t => {
  const device = await receiver(t)
  const runs = async () => Object.fromEntries((await look(device.system, ALL, device.doors)).runs)
  const before = await runs()
  t.strictSame(await runs(), before)
  await device.systemd.systemctl(['systemctl', 'restart', 'uxplay.service'])
  t.strictSame(await runs(), { ...before, 'uxplay.service': '2' })
})

t.test('the checks expect what works at the installation', async t => {
  const device = await receiver(t)
  t.strictSame(await expectations(device.system), ALL)
  monitor(device, 'disconnected')
  device.addresses = { lo: ['127.0.0.1/8'], eth0: [], wlan0: ['fe80::1/64', '2001:db8::4/64'] }
  tunnel(device)
  await device.systemd.systemctl(['systemctl', 'disable', 'uxplay.service'])
  await device.stop('nginx.service')
  t.strictSame(await expectations(device.system), {
    units: ['receiverd.service', 'weston.service'],
    screen: false,
    interfaces: ['wlan0'],
  })
  device.systemd.broken = 'show'
  await t.rejects(expectations(device.system), { code: 'COMMAND_FAILED' })
})
