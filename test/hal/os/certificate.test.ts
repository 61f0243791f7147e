import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { CertificateFiles, RefusedCertificate } from '../../../hal/os/certificate.ts'
import { newAuthority } from '../../support/authority.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { Stopped, stoppingAt } from '../support/file-system.ts'
import { runningAt } from '../support/setting-device.ts'
import { leftoversIn, newRoot } from '../support/tree.ts'

const REQUEST = {
  commonName: 'room-4',
  names: ['room-4', 'room-4.local', '192.0.2.17', '2001:db8::17'],
  from: Date.parse('2026-09-01T00:00:00Z'),
  to: Date.parse('2028-12-01T00:00:00Z'),
}

function device(t: Test) {
  const root = newRoot(t)
  const path = (name: string) => join(root, 'etc/receiverd/tls', `${name}.pem`)
  return { root, path, files: new CertificateFiles(runningAt(root)) }
}

/** An owner's pair, made by openssl(1). */
function ownersPair(folder: string, type: readonly string[], ...options: readonly string[]): void {
  mkdirSync(folder, { recursive: true })
  const out = ['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'certificate.pem')]
  const subject = ['-subj', '/O=Example/CN=room-4.example', '-days', '30', ...options]
  execFileSync('openssl', ['req', '-x509', ...type, ...subject, ...out], { stdio: 'pipe' })
}

const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
// One key for all, because making one takes a quarter of a second.
const RSA_KEY = join(temporaryFolder(t), 'rsa.pem')
execFileSync('openssl', ['genrsa', '-out', RSA_KEY, '2048'], { stdio: 'pipe' })
const RSA = ['-new', '-key', RSA_KEY, '-nodes']
const SHORT_RSA = ['-newkey', 'rsa:1024', '-nodes']

t.test('a pair is made: the key for root alone, the certificate for its names', async t => {
  const { path, files } = device(t)
  t.equal(await files.read(), undefined)
  await files.make(REQUEST)
  t.equal(statSync(path('key')).mode & 0o777, 0o600)
  t.equal(statSync(path('certificate')).mode & 0o777, 0o644)
  const made = await files.read()
  t.match(made, { isOwn: true, from: REQUEST.from, to: REQUEST.to, fingerprint: /^([0-9A-F]{2}:){31}[0-9A-F]{2}$/ })
  for (const name of REQUEST.names) t.ok(made?.covers(name), name)
  for (const name of ['room-5', 'example.local', '192.0.2.18', '::1']) t.notOk(made?.covers(name), name)
  // As in the documentation of curl --pinnedpubkey.
  const pipeline = `openssl x509 -in ${path('certificate')} -noout -pubkey | openssl asn1parse -noout -inform pem -out /dev/stdout | openssl dgst -sha256 -binary | base64`
  t.equal(made?.pin, execFileSync('sh', ['-c', pipeline], { encoding: 'utf8' }).trim())
})

t.test('renewed: the same key and pin, another serial number', async t => {
  const { path, files } = device(t)
  await files.make(REQUEST)
  const [key, first] = [readFileSync(path('key'), 'utf8'), await files.read()]
  const serial = () => new X509Certificate(readFileSync(path('certificate'))).serialNumber
  const before = serial()
  await files.make({ ...REQUEST, commonName: 'room-5', names: ['room-5'] })
  const second = await files.read()
  t.equal(readFileSync(path('key'), 'utf8'), key)
  t.equal(second?.pin, first?.pin)
  t.not(second?.fingerprint, first?.fingerprint)
  t.not(serial(), before)
})

t.test('a stop at any step leaves nothing usable, or a pair', async t => {
  for (const lost of [undefined, 'key', 'certificate']) {
    let stopped = true
    let n = 0
    while (stopped) {
      const { root, path, files } = device(t)
      if (lost !== undefined) {
        await files.make(REQUEST)
        rmSync(path(lost))
      }
      const stopping = new CertificateFiles(runningAt(root, { fs: stoppingAt(++n) }))
      const error = await stopping.make(REQUEST).catch(error => error)
      stopped = error instanceof Stopped
      if (!stopped) t.equal(error, undefined)
      if (existsSync(path('key'))) t.equal(statSync(path('key')).mode & 0o777, 0o600)
      await files.recover()
      t.same(leftoversIn(root), [], `step ${n}`)
      if (!(await files.read())) await files.make(REQUEST)
      t.ok(await files.read(), `step ${n}, without ${lost ?? 'both'}`)
    }
    t.ok(n > 5, `${n} steps`)
  }
})

t.test("an owner's pair is recognized", async t => {
  for (const type of [EC, RSA]) {
    const { root, files } = device(t)
    ownersPair(join(root, 'etc/receiverd/tls'), type)
    t.match(await files.read(), { isOwn: false })
  }
})

t.test('a pair that OpenSSL refuses to a server is refused', async t => {
  const folder = newRoot(t)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' })
  const signed = (name: string, issuer: string, digest: string, isCa: boolean) => {
    writeFileSync(join(folder, 'extensions'), `basicConstraints=CA:${isCa}\n`)
    openssl('req', ...RSA, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`)
    const by = ['-CA', `${issuer}.pem`, '-CAkey', `${issuer}.key`, '-CAcreateserial']
    openssl('x509', '-req', ...by, digest, '-extfile', 'extensions', '-in', `${name}.csr`, '-out', `${name}.pem`)
  }
  openssl('req', '-x509', ...RSA, '-subj', '/CN=root', '-keyout', 'root.key', '-out', 'root.pem')
  signed('weak', 'root', '-sha1', true)
  signed('good', 'root', '-sha256', true)
  signed('by-weak', 'weak', '-sha256', false)
  signed('by-good', 'good', '-sha256', false)
  signed('itself-weak', 'good', '-sha1', false)
  openssl('req', '-x509', ...SHORT_RSA, '-subj', '/CN=a', '-keyout', 'short.key', '-out', 'short.pem')
  const cases: readonly (readonly [chain: readonly string[], message: RegExp | undefined])[] = [
    [['by-good', 'good'], undefined],
    [['by-weak', 'weak'], /^the certificate or its key cannot be used for TLS: ca md too weak$/],
    [['itself-weak', 'good'], /^the certificate or its key cannot be used for TLS: ca md too weak$/],
    [['short'], /^the certificate or its key cannot be used for TLS: ee key too small$/],
  ]
  for (const [chain, message] of cases) {
    const { path, files } = device(t)
    mkdirSync(join(path('key'), '..'), { recursive: true })
    writeFileSync(path('certificate'), chain.map(name => readFileSync(join(folder, `${name}.pem`), 'utf8')).join(''))
    writeFileSync(path('key'), readFileSync(join(folder, `${chain[0]}.key`)))
    if (message) await t.rejects(files.read(), { code: 'UNREADABLE', message }, chain.join())
    else t.match(await files.read(), { isOwn: false }, chain.join())
  }
})

t.test('a key that browsers refuse is not taken, and is used as before if it is in place', async t => {
  const on = (curve: string) => ['-newkey', 'ec', '-pkeyopt', `ec_paramgen_curve:${curve}`, '-nodes']
  const cases: readonly (readonly [type: readonly string[], isTaken: boolean])[] = [
    [EC, true],
    [on('P-384'), true],
    [RSA, true],
    [on('P-521'), false],
    [on('secp224r1'), false],
    [['-newkey', 'rsa-pss', '-pkeyopt', 'rsa_keygen_bits:2048', '-nodes'], false],
    [['-newkey', 'ed25519', '-nodes'], false],
    [['-newkey', 'ed448', '-nodes'], false],
  ]
  for (const [type, isTaken] of cases) {
    const { root, path, files } = device(t)
    ownersPair(join(root, 'etc/receiverd/tls'), type, '-addext', 'subjectAltName=DNS:room-4.example')
    const certificate = readFileSync(path('certificate'), 'utf8')
    const pair = { certificate, key: readFileSync(path('key'), 'utf8') }
    t.match(await files.read(), { isOwn: false, isForBrowsers: isTaken }, type.join(' '))
    const message = /^browsers refuse a key of this kind: use P-256, P-384 or RSA/
    if (isTaken) {
      await CertificateFiles.requireUsable(pair)
      t.equal(await files.accepted(certificate, undefined), certificate)
      t.ok(await files.request(['room-4']))
    } else {
      await t.rejects(CertificateFiles.requireUsable(pair), { code: 'UNREADABLE', message })
      await t.rejects(files.accepted(certificate, undefined), { constructor: RefusedCertificate, message })
      await t.rejects(files.request(['room-4']), { code: 'UNREADABLE', message })
    }
  }
})

t.test('files that were set aside are put back, and none from an earlier time', async t => {
  const root = newRoot(t)
  const files = new CertificateFiles(runningAt(root, { run: async () => 'ActiveState=failed\nJob=\n' }))
  const pairOf = (name: string, type: readonly string[]) => {
    ownersPair(join(root, name), type)
    const read = (file: string) => readFileSync(join(root, name, `${file}.pem`), 'utf8')
    return { certificate: read('certificate'), key: read('key') }
  }
  const later = Date.now() + 3_600_000
  await files.put(pairOf('first', RSA))
  t.equal(await files.setAside(later, true), true, 'both of them')
  const second = pairOf('second', EC)
  await files.put(second)
  t.equal(await files.setAside(later, true), true, 'its key stays')
  await files.make(REQUEST)
  await files.putBack()
  const path = (name: string) => join(root, 'etc/receiverd/tls', `${name}.pem`)
  t.equal(readFileSync(path('certificate'), 'utf8'), second.certificate)
  t.equal(readFileSync(path('key'), 'utf8'), second.key)
})

t.test('an unusable pair is refused, and stays as it is', async t => {
  const other = newRoot(t)
  ownersPair(join(other, 'ec'), EC)
  ownersPair(join(other, 'rsa'), RSA)
  ownersPair(join(other, 'locked'), EC.slice(0, -1), '-passout', 'pass:secret')
  const from = (name: string, file: string) => readFileSync(join(other, name, `${file}.pem`), 'utf8')
  const cases: [certificate: string | Buffer | undefined, key: string | undefined, message: string][] = [
    [from('ec', 'certificate'), from('rsa', 'key'), 'the key does not belong to the first certificate of its file'],
    [from('ec', 'certificate'), undefined, 'the certificate has no key'],
    [from('ec', 'certificate'), 'garbage', 'the key is not valid PEM, or has a passphrase'],
    [from('locked', 'certificate'), from('locked', 'key'), 'the key is not valid PEM, or has a passphrase'],
    ['garbage', from('ec', 'key'), 'the certificate, or one of its chain, is not valid PEM'],
    [Buffer.from([0x30, 0x82]), from('ec', 'key'), 'the certificate is not valid UTF-8'],
    ['x'.repeat(70_000), from('ec', 'key'), 'the certificate is larger than 64 KiB'],
  ]
  for (const [certificate, key, message] of cases) {
    const { path, files } = device(t)
    mkdirSync(join(path('key'), '..'), { recursive: true })
    if (certificate !== undefined) writeFileSync(path('certificate'), certificate)
    if (key !== undefined) writeFileSync(path('key'), key)
    await t.rejects(files.read(), { code: 'UNREADABLE', message })
  }
  const { path, files } = device(t)
  mkdirSync(join(path('key'), '..'), { recursive: true })
  writeFileSync(path('key'), from('rsa', 'key'))
  await t.rejects(
    files.make(REQUEST),
    { message: 'the certificate is missing, and its key is not one that the device makes' },
    'an RSA key that waits for its own',
  )
  t.equal(readFileSync(path('key'), 'utf8'), from('rsa', 'key'))
  t.notOk(existsSync(path('certificate')))
})

t.test('a chain for the key in place is accepted, without the text around it', async t => {
  const { files, path } = device(t)
  await files.make(REQUEST)
  const authority = newAuthority(t)
  const leaf = authority.sign(await files.request(REQUEST.names))
  for (const chain of [leaf, leaf + authority.chain]) {
    t.equal(await files.accepted(`Bag Attributes\r\n${chain.replaceAll('\n', '\r\n')}\n`, Date.now()), chain)
    await files.putCertificate(await files.accepted(chain, Date.now()))
    t.match(await files.read(), { isOwn: false })
    t.equal(readFileSync(path('certificate'), 'utf8'), chain)
  }
  for (const name of REQUEST.names) t.ok((await files.read())?.covers(name), name)
})

t.test('of a chain, the first end counts', async t => {
  const { files } = device(t)
  await files.make(REQUEST)
  const authority = newAuthority(t)
  const leaf = authority.sign(await files.request(['room-4']), { days: 350 })
  await files.putCertificate(leaf + authority.chain)
  t.equal((await files.read())?.to, Date.parse(new X509Certificate(authority.chain).validTo))
})

t.test('any other chain is refused, with the reason and with what would be accepted', async t => {
  const { files } = device(t)
  await files.make(REQUEST)
  const [authority, stranger] = [newAuthority(t), newAuthority(t)]
  const request = await files.request(REQUEST.names)
  const leaf = authority.sign(request)
  const other = device(t)
  await other.files.make(REQUEST)
  const foreign = authority.sign(await other.files.request(REQUEST.names))
  const key = readFileSync(other.path('key'), 'utf8')
  const now = Date.now()
  const day = 86_400_000
  const cases: readonly (readonly [chain: string, now: number, message: RegExp])[] = [
    ['', now, /^it is not a chain of certificates in PEM; send /],
    ['garbage', now, /^it is not a chain of certificates in PEM; send /],
    [
      leaf.replace('M', '!'),
      now,
      /^the certificate is not valid PEM.*; send certificates as their authority has made them$/,
    ],
    [leaf.replace('-----END', '-----ENDE'), now, /valid PEM; send certificates/],
    [leaf.replaceAll(' CERTIFICATE', ' TRUSTED CERTIFICATE'), now, /^it is not a chain/],
    [leaf + key, now, /^there is a private key in it, .* should be replaced; send certificates alone$/],
    [leaf + authority.chain.repeat(8), now, /^it has 9 certificates; send at most 8$/],
    [
      foreign,
      now,
      /^the first certificate is not for the key of this device; send one that was made from its request$/,
    ],
    [authority.chain + leaf, now, /^the first certificate is not for the key of this device/],
    [
      authority.sign(request, { extensions: 'keyUsage=digitalSignature' }),
      now,
      /^the first .* has no subjectAltName, .*; send one with/,
    ],
    [
      authority.sign(request, { extensions: 'subjectAltName=DNS:room-4\nextendedKeyUsage=clientAuth' }),
      now,
      /^the first certificate is not for servers; send one with the key usage serverAuth/,
    ],
    [leaf + stranger.chain, now, /^certificate 1 was not issued by the next; send the one of this device first/],
    [leaf, now + 31 * day, /^certificate 1 expired on \d{4}-\d\d-\d\d; send a chain that is valid now$/],
    [authority.sign(request, { days: 350 }) + authority.chain, now + 320 * day, /^certificate 2 expired on /],
    [leaf, now - 2 * day, /^certificate 1 is not valid before .*; send a chain that is valid now$/],
  ]
  for (const [chain, at, message] of cases)
    await t.rejects(
      files.accepted(chain, at),
      { name: 'Error', message, constructor: RefusedCertificate },
      String(message),
    )
  t.equal(await files.accepted(leaf, now - day / 2), leaf, 'the clock of the authority may be ahead')
  t.equal(await files.accepted(leaf, undefined), leaf, 'without a clock, its time is not known')
})

t.test('without a key, nothing can be requested or accepted', async t => {
  const { files } = device(t)
  await t.rejects(files.request(['room-4']), { message: 'the device has no key yet' })
  await t.rejects(files.accepted('', undefined), { message: 'the device has no key yet' })
})
