import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { issuerFile, issuerIn, publicKeyIn } from '../../src/auth/issuer.ts'
import { TestIssuer } from '../support/issuer.ts'

const ed25519 = new TestIssuer('fleet')
const p256 = new TestIssuer('fleet', 'ES256')

t.test('an issuer is read from its file, with the defaults', async t => {
  for (const { publicKey, algorithm } of [ed25519, p256]) {
    const read = issuerIn('fleet', Buffer.from(JSON.stringify({ publicKey, roles: ['admin:r', 'moderator:wr'] })))
    t.match(read, {
      ...{ name: 'fleet', algorithm, maxAgeS: 86_400, source: 'image' },
      roles: ['admin:r', 'moderator:wr'],
      grants: new Set(['admin:r', 'moderator:w', 'moderator:r']),
    })
    const written = issuerIn('fleet', Buffer.from(issuerFile({ publicKey, roles: ['admin:w'], maxAgeS: 60 }, 'api')))
    t.match(written, { algorithm, maxAgeS: 60, source: 'api', roles: ['admin:w'], keyId: read.keyId })
  }
})

t.test('a file that does not fit is refused, and the reason names the place', async t => {
  const { publicKey } = ed25519
  const good = { publicKey, roles: ['admin:r'] }
  for (const [value, why] of [
    ['{', /not JSON/],
    [Buffer.from([0x22, 0xff, 0x22]), /not UTF-8/],
    [`{"publicKey":${JSON.stringify(publicKey)},"roles":["admin:r"],"roles":["admin:rw"]}`, /duplicate name "roles"/],
    [[], /^the file: must be of type object/],
    [{ publicKey }, /^the file: missing required property roles/],
    [{ roles: ['admin:r'] }, /missing required property publicKey/],
    [{ ...good, roles: [] }, /^\/roles: /],
    [{ ...good, roles: ['root:r'] }, /^\/roles\/0: must be one of admin:r/],
    [{ ...good, roles: 'admin:r' }, /^\/roles: must be of type array/],
    [{ ...good, maxAgeS: 59 }, /^\/maxAgeS: must be at least 60/],
    [{ ...good, maxAgeS: 2_592_001 }, /^\/maxAgeS: must be at most 2592000/],
    [{ ...good, maxAgeS: 60.5 }, /^\/maxAgeS: must be of type integer/],
    [{ ...good, maxAge: 60 }, /^\/maxAge: unknown property; did you mean maxAgeS/],
    [{ ...good, source: 'me' }, /^\/source: must be one of image, card, api/],
    [{ ...good, publicKey: 'A'.repeat(1_025) }, /^\/publicKey: must not have more than 1024 characters/],
    [{ ...good, publicKey: 'AAAA' }, /^\/publicKey: must be an Ed25519 or P-256 public key in PEM/],
  ] as const) {
    const bytes = Buffer.isBuffer(value)
      ? value
      : Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
    t.throws(() => issuerIn('fleet', bytes), { code: 'UNREADABLE', message: why }, String(why))
  }
})

t.test('only an Ed25519 or P-256 public key is a key', async t => {
  const pem = (key: ReturnType<typeof generateKeyPairSync>['publicKey']) =>
    (key as unknown as { export(o: object): string }).export({ type: 'spki', format: 'pem' })
  for (const [name, text] of [
    ['RSA', pem(generateKeyPairSync('rsa', { modulusLength: 2_048 }).publicKey)],
    ['P-384', pem(generateKeyPairSync('ec', { namedCurve: 'P-384' }).publicKey)],
    ['secp256k1', pem(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey)],
    ['Ed448', pem(generateKeyPairSync('ed448').publicKey)],
    ['X25519', pem(generateKeyPairSync('x25519').publicKey)],
    ['a private key', ed25519.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()],
    [
      'a private key, called public',
      ed25519.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString().replaceAll('PRIVATE', 'PUBLIC'),
    ],
    ['two keys', ed25519.publicKey + p256.publicKey],
    ['text in front', `x\n${ed25519.publicKey}`],
    [
      'bytes behind the key',
      ed25519.publicKey.replace(
        /\n(.+)\n/,
        (_, line) => `\n${Buffer.concat([Buffer.from(line, 'base64'), Buffer.from('xx')]).toString('base64')}\n`,
      ),
    ],
    ['a point that is not on the curve', p256.publicKey.replace(/.{8}\n-----END/, 'AAAAAA==\n-----END')],
    ['nothing', ''],
  ] as const)
    t.equal(publicKeyIn(text), undefined, name)
  t.ok(publicKeyIn(`\r\n${ed25519.publicKey.replaceAll('\n', '\r\n')}`), 'blank lines do not matter')
})
