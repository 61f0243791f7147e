/** As many devices as somebody owns, by as many addresses of a few services: the program's work with them. */
import t from 'tap'
import { startTestService } from '../support/service.ts'
import { Owner } from './support.ts'

const SERVICES = 10
const ADDRESSES = 50
const DEVICES = SERVICES * ADDRESSES

t.test('500 devices are listed, compared and changed', async t => {
  const owner = new Owner(t)
  const services = await Promise.all(
    Array.from({ length: SERVICES }, () => startTestService(t, { listen: '0.0.0.0:0' })),
  )
  const devices = services.flatMap((service, index) =>
    // Each address of the loopback is one of this machine (RFC 1122 section 3.2.1.3).
    Array.from({ length: ADDRESSES }, (_, other) => ({
      service,
      name: `r${index}-${other}`,
      host: `127.1.${index}.${other}`,
    })),
  )
  owner.write('keys.csv', devices.map(({ name, service }) => `${name},${service.key}\n`).join(''))
  const lines = devices.map(({ name, host, service }) => `  ${name}: { address: "http://${host}:${service.port}" }\n`)
  owner.write('fleet.yaml', `keys: keys.csv\nsettings: { timezone: UTC }\ndevices:\n${lines.join('')}`)
  for (const [args, status, said] of [
    [['list'], 0, /r9-49 .* ok\n$/],
    [['diff'], 3, /\n500 devices: 500 would change\n$/],
    [['apply', '--yes', '--waves', '2,10,rest'], 0, /\n500 devices: (\d+ unchanged, )?\d+ changed\n$/],
    [['diff'], 0, /500 devices: 500 unchanged\n$/],
  ] as const) {
    const began = performance.now()
    const output = await owner.run(args)
    t.comment(`${args[0]}: ${DEVICES} devices in ${Math.round(performance.now() - began)} ms`)
    t.equal(output.status, status, output.stderr)
    t.match(output.stdout, said)
  }
})
