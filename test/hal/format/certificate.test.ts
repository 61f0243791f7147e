/** The certificates, as OpenSSL reads them. */
import { execFileSync } from 'node:child_process'
import { generateKeyPairSync, randomBytes, X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { selfSigned, signingRequest } from '../../../hal/format/certificate.ts'
import { temporaryFolder } from '../../support/folder.ts'

const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const REQUEST = {
  key,
  organization: 'receiverd',
  commonName: 'room-4',
  names: ['room-4', 'room-4.local', '192.0.2.17', '2001:db8::17'],
  from: Date.parse('2026-09-01T00:00:00Z'),
  to: Date.parse('2049-12-31T23:59:59Z'),
  serial: randomBytes(15),
}

const openssl = (...args: string[]) => execFileSync('openssl', args, { encoding: 'utf8', stdio: 'pipe' })

t.test('OpenSSL reads what was asked for', async t => {
  const path = join(temporaryFolder(t), 'certificate.pem')
  writeFileSync(path, selfSigned(REQUEST))
  const text = openssl('x509', '-in', path, '-noout', '-text')
  for (const line of [
    'Version: 3 (0x2)',
    'Issuer: O = receiverd, CN = room-4',
    'Subject: O = receiverd, CN = room-4',
    'Not Before: Sep  1 00:00:00 2026 GMT',
    'Not After : Dec 31 23:59:59 2049 GMT',
    'ASN1 OID: prime256v1',
    'CA:FALSE',
    'TLS Web Server Authentication',
    'DNS:room-4, DNS:room-4.local, IP Address:192.0.2.17, IP Address:2001:DB8:0:0:0:0:0:17',
  ])
    t.match(text, line)
  t.equal(text.match(/Signature Algorithm: ecdsa-with-SHA256/g)?.length, 2)
})

t.test('it is accepted by whoever trusts it, in strict mode, as a server and nothing else', async t => {
  const path = join(temporaryFolder(t), 'certificate.pem')
  writeFileSync(path, selfSigned(REQUEST))
  const verify = (...args: string[]) =>
    openssl('verify', '-x509_strict', '-check_ss_sig', '-attime', '1800000000', '-trusted', path, ...args, path)
  for (const name of [
    ['-verify_hostname', 'room-4.local'],
    ['-verify_ip', '192.0.2.17'],
    ['-verify_ip', '2001:db8::17'],
  ])
    t.match(verify('-purpose', 'sslserver', ...name), /: OK\n$/)
  t.throws(() => verify('-purpose', 'sslclient'))
  t.throws(() => verify('-verify_hostname', 'room-5.local'))
})

t.test('any length and any time is encoded as DER has it', async t => {
  const names = Array.from({ length: 34 }, (_, n) => `2001:db8::${n.toString(16)}`)
  const cases: [what: string, request: object][] = [
    ['no names', { names: [] }],
    ['so many that a length takes two bytes', { names }],
    ['all together', { names: ['a'.repeat(63), ...names] }],
    ['a long name', { commonName: `${'a'.repeat(31)}.${'b'.repeat(32)}` }],
    ['after 2049', { to: Date.parse('2050-01-01T00:00:00Z') }],
    ['1970', { from: 0 }],
  ]
  for (const [what, request] of cases) {
    const all = { ...REQUEST, ...request }
    const read = new X509Certificate(selfSigned(all))
    t.ok(read.verify(read.publicKey), what)
    t.ok(read.checkPrivateKey(key))
    t.match(read.subject, `CN=${all.commonName}`)
    t.same([Date.parse(read.validFrom), Date.parse(read.validTo)], [all.from, all.to])
    for (const name of all.names.filter(name => name.includes(':'))) t.equal(read.checkIP(name), name)
  }
})

t.test('a request is signed with its key, and has its names', async t => {
  const path = join(temporaryFolder(t), 'request.der')
  const kinds = [
    generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    generateKeyPairSync('ec', { namedCurve: 'P-521' }),
    generateKeyPairSync('rsa', { modulusLength: 2048 }),
  ]
  for (const { privateKey, publicKey } of kinds) {
    writeFileSync(path, signingRequest({ key: privateKey, names: REQUEST.names }))
    const text = openssl('req', '-inform', 'DER', '-in', path, '-noout', '-verify', '-text')
    for (const line of [
      'Version: 1 (0x0)',
      'Subject: CN = room-4\n',
      'DNS:room-4, DNS:room-4.local, IP Address:192.0.2.17, IP Address:2001:DB8:0:0:0:0:0:17',
      'TLS Web Server Authentication',
    ])
      t.match(text, line, `${privateKey.asymmetricKeyType}: ${line}`)
    t.equal(
      openssl('req', '-inform', 'DER', '-in', path, '-noout', '-pubkey'),
      publicKey.export({ type: 'spki', format: 'pem' }),
    )
  }
  t.throws(() => signingRequest({ key: generateKeyPairSync('ed25519').privateKey, names: ['a'] }), TypeError)
})

t.test('a request for an address or a long name has no common name', async t => {
  const path = join(temporaryFolder(t), 'request.der')
  for (const name of ['192.0.2.17', `${'a'.repeat(40)}.${'b'.repeat(40)}.example`]) {
    writeFileSync(path, signingRequest({ key, names: [name] }))
    const text = openssl('req', '-inform', 'DER', '-in', path, '-noout', '-verify', '-text')
    t.match(text, /Subject: *\n/)
    t.match(text, new RegExp(`(DNS|IP Address):${name}\\n`))
  }
})
