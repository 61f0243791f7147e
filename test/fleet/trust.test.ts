/** `add-issuer`, `remove-issuer` and `certificates`: many devices trust one issuer, and one program trusts many devices. */
import { type ChildProcess, execFileSync } from 'node:child_process'
import { generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto'
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { pinOf } from '../../hal/format/certificate.ts'
import { hostAndPort } from '../../src/http/address.ts'
import { needs } from '../support/needs.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { certificateOf, Network, Owner, silentAddress } from './support.ts'

function pem(key: KeyObject, type: 'pkcs8' | 'spki'): string {
  return key.export({ type, format: 'pem' } as never).toString()
}

async function issuersOf(device: TestService) {
  const { issuers } = (await (await device.fetch('/issuers')).json()) as {
    readonly issuers: readonly { readonly name: string }[]
  }
  return issuers
}

/** As `openssl req -x509` makes it, which may sign others. */
function authorityOf(owner: Owner, name: string) {
  const [key, cert] = [owner.path('ca.key'), owner.path('ca.crt')]
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const names = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1']
  execFileSync('openssl', ['req', '-x509', ...curve, '-keyout', key, '-out', cert, ...names], { stdio: 'pipe' })
  const { publicKey } = new X509Certificate(readFileSync(cert))
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8'), pin: `sha256//${pinOf(publicKey)}` }
}

/** Two devices with TLS, and a network in front of each. */
async function pair(t: Test) {
  const owner = new Owner(t)
  const rooms = await Promise.all(
    ['lobby', 'hall'].map(async name => {
      const own = certificateOf(name)
      const device = await startTestService(t)
      const network = await Network.to(t, device.port, own)
      return { name, own, device, network, address: network.address }
    }),
  )
  owner.write('keys.csv', rooms.map(({ name, device }) => `${name},${device.key}\n`).join(''))
  const write = () => {
    const lines = rooms.map(({ name, own, address }) => `  ${name}: { address: "${address}", pin: "${own.pin}" }\n`)
    owner.write('fleet.yaml', `keys: keys.csv\ndevices:\n${lines.join('')}`)
  }
  write()
  const [lobby, hall] = rooms
  if (!lobby || !hall) throw new Error('two were started')
  return { owner, lobby, hall, write }
}

t.test('an issuer is added to many devices, and removed again', async t => {
  const { owner, lobby, hall } = await pair(t)
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  owner.write('issuer.pem', pem(privateKey, 'pkcs8'))
  const heads: string[] = []
  let isLost = true
  lobby.network.fateOf = head => {
    heads.push(head)
    const fate = isLost && head.startsWith('PUT ') ? 'lose the answer' : 'pass'
    isLost &&= fate === 'pass'
    return fate
  }
  const add = ['add-issuer', '--role', 'admin:r', '--max-age', '12h', '--yes', 'monitoring']
  t.match(await owner.outcomes([...add, 'issuer.pem']), {
    status: 0,
    of: { lobby: { state: 'done' }, hall: { state: 'done' } },
  })
  t.equal(heads.filter(head => head.startsWith('PUT ')).length, 2, 'its first answer was lost')
  t.notMatch(heads.join(), 'PRIVATE', 'of a private key, only the public half is sent')
  const expected = { name: 'monitoring', algorithm: 'EdDSA', roles: ['admin:r'], maxAgeS: 43_200, source: 'api' }
  for (const { device } of [lobby, hall]) t.strictSame(await issuersOf(device), [expected])

  const ask = ['token', '--issuer', 'monitoring', '--issuer-key', 'issuer.pem', '--role', 'admin:r']
  const { stdout: token } = await owner.run(ask)
  for (const { device } of [lobby, hall]) t.equal((await device.fetchAs(token.trim(), '/status')).status, 200)

  const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  owner.write('issuer.pub', pem(p256.publicKey, 'spki'), 0o644)
  const roles = ['--role', 'admin:rw', '--role', 'moderator:r']
  t.match(await owner.outcomes(['add-issuer', ...roles, '--device', 'hall', '--yes', 'monitoring', 'issuer.pub']), {
    status: 0,
    of: { hall: { state: 'done' }, lobby: undefined },
  })
  t.match(await issuersOf(hall.device), [{ algorithm: 'ES256', roles: ['admin:rw', 'moderator:r'], maxAgeS: 86_400 }])
  t.equal((await hall.device.fetchAs(token.trim(), '/status')).status, 401, 'it was replaced')

  const remove = ['remove-issuer', '--yes', 'monitoring']
  t.match(await owner.outcomes([...remove, '--device', 'lobby']), { status: 0, of: { lobby: { state: 'done' } } })
  t.equal((await lobby.device.fetchAs(token.trim(), '/status')).status, 401)
  t.match(await owner.outcomes(remove), {
    status: 0,
    of: { lobby: { state: 'unchanged', note: 'there is no issuer monitoring' }, hall: { state: 'done' } },
  })
  t.strictSame(await issuersOf(hall.device), [])

  t.equal((await owner.run([...add, 'issuer.pem', '--device', 'lobby'])).status, 0)
  let lost = 0
  lobby.network.fateOf = head => (head.startsWith('DELETE ') && lost++ === 0 ? 'lose the answer' : 'pass')
  t.match(await owner.outcomes([...remove, '--device', 'lobby']), { status: 0, of: { lobby: { state: 'done' } } })

  owner.write('public.pem', pem(publicKey, 'spki'))
  owner.write('rsa.pem', pem(generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey, 'spki'))
  owner.write('open.pem', pem(privateKey, 'pkcs8'), 0o644)
  owner.write('lobby.pem', lobby.own.cert)
  owner.write('two.pem', owner.read('public.pem') + owner.read('rsa.pem'))
  for (const [args, said] of [
    [[...add, 'rsa.pem'], 'rsa.pem has no Ed25519 or P-256 key in PEM without a passphrase'],
    [[...add, 'keys.csv'], 'keys.csv has no Ed25519 or P-256 key'],
    [[...add, 'open.pem'], /open\.pem has a private key, and others may read it: chmod 600/],
    [[...add, 'none.pem'], /there is no .*none\.pem/],
    [[...add, 'lobby.pem'], "lobby.pem has a certificate: give the issuer's key"],
    [[...add, 'two.pem'], "two.pem has more than one key or certificate: give the issuer's key alone"],
    [add, 'add-issuer: missing FILE; see receiverd-fleet add-issuer --help'],
    [
      ['add-issuer', '--yes', 'monitoring', 'public.pem'],
      'add-issuer: give --role, such as --role admin:r; see receiverd-fleet add-issuer --help',
    ],
    [
      ['add-issuer', '--role', 'admin:r', 'Monitoring', 'public.pem'],
      '"Monitoring" is no name of an issuer: give 1 to 32',
    ],
    [
      ['add-issuer', '--role', 'admin:r', '--max-age', '31d', 'a', 'public.pem'],
      '--max-age: "31d" is not a duration from 1m',
    ],
    [['add-issuer', '--role', 'admin:r', 'a', 'public.pem'], 'no terminal to ask on'],
    [['remove-issuer'], 'remove-issuer: missing NAME'],
    [['remove-issuer', 'a', 'b'], 'remove-issuer takes NAME alone: "b"'],
  ] as const)
    t.match(await owner.run(args), { status: 2, stdout: '', stderr: said })
  t.strictSame(await issuersOf(lobby.device), [])
})

t.test('certificates of devices that have shown their pins, and of an authority', async t => {
  const { owner, lobby, hall, write } = await pair(t)
  const output = ['certificates', '--output', 'receivers.pem']
  t.same(await owner.run(['certificates']), { status: 0, stdout: lobby.own.cert + hall.own.cert, stderr: '' })
  t.same(await owner.run(output), { status: 0, stdout: '', stderr: '' })
  t.equal(owner.read('receivers.pem'), lobby.own.cert + hall.own.cert)
  t.equal(statSync(owner.path('receivers.pem')).mode & 0o777, 0o644)

  // Reading this one fails, as from a broken disk.
  symlinkSync('/proc/self/mem', owner.path('broken.pem'))
  t.match(await owner.run(['certificates', '--output', 'broken.pem']), {
    status: 2,
    stderr: /broken\.pem: .*\(EIO\)\n$/,
  })

  hall.network.breakDown()
  const { status, stderr } = await owner.run(output)
  t.equal(status, 0)
  t.match(stderr, /^hall: cannot connect to .* \(ECONNREFUSED\); the certificate that was in the file stays\n$/)
  t.equal(owner.read('receivers.pem'), lobby.own.cert + hall.own.cert)
  t.match(await owner.run(['certificates']), { status: 1, stdout: lobby.own.cert, stderr: /^hall: cannot connect/ })

  const other = certificateOf('hall')
  Object.assign(hall.own, { pin: other.pin })
  write()
  t.match(
    await owner.run(output),
    { status: 1, stderr: /^hall: cannot connect/ },
    'that is not its certificate any more',
  )
  t.notMatch(owner.read('receivers.pem'), hall.own.cert)

  owner.write('ca.pem', other.cert)
  const plain = 'plain: it is reached by http, and has no certificate\n'
  const devices = ['one: { address: 192.0.2.1, ca: ca.pem }', 'two: { address: 192.0.2.2, ca: ca.pem }']
  owner.write('fleet.yaml', `devices:\n  ${[...devices, 'plain: { address: "http://192.0.2.3" }'].join('\n  ')}\n`)
  t.same(
    await owner.run(['certificates']),
    { status: 0, stdout: other.cert, stderr: plain },
    'once, and nobody is asked',
  )
})

t.test('a file with certificates keeps those of other devices', async t => {
  const { owner, lobby, hall, write } = await pair(t)
  const output = ['certificates', '--output', 'receivers.pem']
  const both = lobby.own.cert + hall.own.cert
  t.match(await owner.run(output), { status: 0 })
  const renewed = certificateOf('lobby')
  owner.write(
    'receivers.pem',
    `${both}junk\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n${renewed.cert}`,
  )
  t.match(await owner.run([...output, '--device', 'lobby']), { status: 0, stderr: '' })
  t.equal(owner.read('receivers.pem'), both, 'and nothing else')

  let child: ChildProcess | undefined
  hall.address = await silentAddress(t, () => child?.kill('SIGINT'))
  write()
  const interrupted = owner.run(output, {}, started => {
    child = started
  })
  t.match(await interrupted, { status: 130 })
  t.equal(owner.read('receivers.pem'), both)

  writeFileSync(owner.path('receivers.pem'), Buffer.from([0xff, 0xfe]))
  t.match(await owner.run([...output, '--device', 'lobby']), { status: 0, stderr: '' }, 'it is written anew')
  t.equal(owner.read('receivers.pem'), lobby.own.cert)
  mkdirSync(owner.path('folder'))
  for (const [path, said] of [
    ['folder', /cannot write .*folder: it is a folder/],
    ['none/receivers.pem', /there is no folder .*none/],
  ] as const)
    t.match(await owner.run(['certificates', '--device', 'lobby', '--output', path]), { status: 1, stderr: said })
  t.match(await owner.run(['certificates', '--output', '']), { status: 2, stderr: '--output: give the path of a file' })
})

t.test('a certificate by which a device could be another one is refused', { skip: needs('openssl') }, async t => {
  const owner = new Owner(t)
  const others = ['hall.example.org', '192.0.2.9', '2001:db8::9']
  const lines = others.map(
    (host, at) => `  other-${at}: { address: "https://${hostAndPort(host, 443)}", pin: "${certificateOf('x').pin}" }\n`,
  )
  const device = await startTestService(t)
  const authority = authorityOf(owner, 'lobby')
  for (const [own, why] of [
    [certificateOf('lobby', ['192.0.2.9']), 'its certificate is also for 192.0.2.9, which is other-1'],
    [certificateOf('lobby', ['::ffff:192.0.2.9']), /its certificate is also for 0:.*:C000:209, which is other-1/],
    [certificateOf('lobby', ['HALL.example.org']), 'its certificate is also for HALL.example.org, which is other-0'],
    [certificateOf('lobby', ['2001:db8::9']), /its certificate is also for 2001:.*:9, which is other-2/i],
    [certificateOf('lobby', ['*.example.org']), 'its certificate is also for *.example.org, which is other-0'],
    [authority, 'its certificate may sign others (CA:TRUE)'],
  ] as const) {
    const network = await Network.to(t, device.port, own)
    owner.write(
      'fleet.yaml',
      `devices:\n  lobby: { address: "${network.address}", pin: "${own.pin}" }\n${lines.join('')}`,
    )
    owner.write('receivers.pem', own.cert)
    const { status, stdout, stderr } = await owner.run([
      'certificates',
      '--device',
      'lobby',
      '--output',
      'receivers.pem',
    ])
    t.match({ status, stdout }, { status: 1, stdout: '' })
    t.match(stderr, typeof why === 'string' ? `lobby: ${why}\n` : why)
    t.equal(owner.read('receivers.pem'), own.cert, 'without any, it is not written')
  }
})

t.test('a device that shows another pin is not trusted', async t => {
  const { owner, lobby, write } = await pair(t)
  const [shown, expected] = [lobby.own.pin, certificateOf('lobby').pin]
  lobby.own.pin = expected
  write()
  const { status, stdout, stderr } = await owner.run(['certificates'])
  t.equal(status, 1)
  t.equal(stderr, `lobby: its certificate has another pin: ${shown}\n`)
  t.notMatch(stdout, lobby.own.cert)
})
