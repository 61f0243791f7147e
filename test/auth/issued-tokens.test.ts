import { createHmac, createPublicKey, generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { Authenticator, type Credential, holderOf } from '../../src/auth/authenticator.ts'
import type { DeviceNames } from '../../src/auth/issued-tokens.ts'
import { hasLongSignature, verifySignature } from '../../src/auth/issued-tokens.ts'
import { type Algorithm, type Issuer, issuerIn, publicKeyIn } from '../../src/auth/issuer.ts'
import { mint, signingKey } from '../../src/auth/jwt.ts'
import { generateKey } from '../../src/auth/key-file.ts'
import { Problem } from '../../src/problem.ts'
import { ManualClock } from '../support/clock.ts'
import { NO_ISSUERS } from '../support/credential.ts'
import { TestIssuer } from '../support/issuer.ts'

function setUp({ builtAt = 0, leewayS = 0 } = {}) {
  const fleet = new TestIssuer('fleet')
  const ops = new TestIssuer('ops', 'ES256')
  const inForce = new Map<string, Issuer>()
  const put = (issuer: TestIssuer, more = {}) =>
    inForce.set(issuer.name, issuerIn(issuer.name, Buffer.from(issuer.file(more))))
  put(fleet)
  put(ops)
  const clock = new ManualClock()
  let device: DeviceNames = { serial: 'S1', hostname: 'lobby', groups: ['north', 'tv'] }
  const apiKey = generateKey()
  const authenticator = new Authenticator(apiKey, {
    ...{ clock, builtAt, leewayS, issuers: inForce },
    log: () => undefined,
    device: () => device,
  })
  return {
    ...{ fleet, ops, inForce, put, clock, apiKey, authenticator },
    rename: (names: Partial<DeviceNames>) => {
      device = { ...device, ...names }
    },
  }
}

const grantsOf = async (authenticator: Authenticator, token: string) =>
  [...(await authenticator.authenticate([token], 'a')).grants].sort()

async function refusalOf(authenticator: Authenticator, ...tokens: string[]): Promise<string> {
  try {
    await authenticator.authenticate(tokens, 'a')
    return 'accepted'
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 401) throw error
    return /error_description="([^"]+)"/.exec(error.headers.join())?.[1] ?? ''
  }
}

t.test('a token of each algorithm is accepted, and remembered', async t => {
  const { fleet, ops, authenticator } = setUp()
  for (const issuer of [fleet, ops]) {
    const token = issuer.token({ roles: ['admin:r', 'moderator:rw'], sub: 'ann', iss: 'anything' })
    const verifying = authenticator.authenticate([token], 'a')
    t.ok(verifying instanceof Promise, 'off the loop')
    const credential = await verifying
    t.strictSame([...credential.grants].sort(), ['admin:r', 'moderator:r', 'moderator:w'])
    t.equal(holderOf(credential), `a token of ann, by the issuer ${issuer.name}`)
    t.equal(authenticator.authenticate([token], 'a'), credential, 'from then on at once')
    t.notOk(credential.isApiKey)
  }
})

t.test('RFC 8037 A.4 and RFC 7515 A.3: their signatures are good, and no other bit pattern is', async t => {
  const vectors: readonly (readonly [Algorithm, object, string])[] = [
    [
      'EdDSA',
      { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' },
      'eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg',
    ],
    [
      'ES256',
      {
        ...{ kty: 'EC', crv: 'P-256', x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU' },
        y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
      },
      'eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q',
    ],
  ]
  for (const [algorithm, jwk, token] of vectors) {
    const spki = createPublicKey({ key: jwk as never, format: 'jwk' }).export({ type: 'spki', format: 'pem' })
    const key = publicKeyIn(spki.toString())
    if (!key) throw new Error('the key is refused')
    t.equal(key.algorithm, algorithm)
    const dot = token.lastIndexOf('.')
    const [input, signature] = [Buffer.from(token.slice(0, dot)), Buffer.from(token.slice(dot + 1), 'base64url')]
    t.ok(hasLongSignature(token))
    t.equal(await verifySignature(key, input, signature), true, algorithm)
    for (let bit = 0; bit < 8 * signature.length; bit += 7) {
      const other = Buffer.from(signature)
      other[bit >> 3] = (other[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      if (await verifySignature(key, input, other)) t.fail(`${algorithm}: bit ${bit}`)
    }
  }
})

t.test('a signature that cannot be verified is an error, and not a bad one', async t => {
  const { publicKey } = generateKeyPairSync('x25519')
  const verifying = verifySignature({ key: publicKey, algorithm: 'EdDSA' }, Buffer.from('x'), Buffer.alloc(64))
  await t.rejects(verifying, { message: /not supported/ })
})

t.test('the header selects a key, and nothing else', async t => {
  const { fleet, ops, apiKey, authenticator } = setUp()
  const other = new TestIssuer('fleet')
  const jwk = createPublicKey(other.publicKey).export({ format: 'jwk' })
  const payload = Buffer.from(fleet.token().split('.')[1] ?? '', 'base64url')
  const cases: readonly (readonly [name: string, token: string, why: string])[] = [
    ['no kid', fleet.token({}, { kid: undefined }), 'malformed'],
    ['kid a number', fleet.token({}, { kid: 7 }), 'malformed'],
    ['kid a list', fleet.token({}, { kid: ['fleet'] }), 'malformed'],
    ['kid of nobody', fleet.token({}, { kid: 'nobody' }), 'unknown issuer'],
    ['kid a path', fleet.token({}, { kid: '../issuers/fleet' }), 'unknown issuer'],
    ['kid in capitals', fleet.token({}, { kid: 'Fleet' }), 'unknown issuer'],
    ['kid of every object', fleet.token({}, { kid: '__proto__' }), 'unknown issuer'],
    ['kid of another, of the same kind', new TestIssuer('x').token({}, { kid: 'fleet' }), 'bad signature'],
    ['kid of another kind', fleet.token({}, { kid: 'ops' }), 'malformed'],
    ['ES256 for an Ed25519 key', ops.token({}, { kid: 'fleet' }), 'malformed'],
    ['ES256, signed with Ed25519', fleet.token({}, { alg: 'ES256', kid: 'ops' }), 'bad signature'],
    ['EdDSA, signed with P-256', ops.token({}, { alg: 'EdDSA', kid: 'fleet' }), 'bad signature'],
    ['alg none', fleet.token({}, { alg: 'none' }), 'malformed'],
    ['alg HS256', fleet.token({}, { alg: 'HS256' }), 'malformed'],
    ['alg HS512', fleet.token({}, { alg: 'HS512' }), 'malformed'],
    ['alg eddsa', fleet.token({}, { alg: 'eddsa' }), 'malformed'],
    ['alg HS512, kid of nobody', fleet.token({}, { alg: 'HS512', kid: 'nobody' }), 'malformed'],
    ['no alg', fleet.token({}, { alg: undefined }), 'malformed'],
    ['crit', fleet.token({}, { crit: ['exp'] }), 'malformed'],
    ['crit empty', fleet.token({}, { crit: [] }), 'malformed'],
    ['jwk of the signer', other.token({}, { jwk }), 'bad signature'],
    [
      'jku and x5c',
      other.token({}, { jku: 'https://x.example/k', x5u: 'https://x.example/c', x5c: ['AAAA'] }),
      'bad signature',
    ],
    ['alg twice', fleet.sign('{"alg":"EdDSA","alg":"EdDSA","kid":"fleet"}', payload), 'malformed'],
    ['kid twice', fleet.sign('{"alg":"EdDSA","kid":"ops","kid":"fleet"}', payload), 'malformed'],
    ['a header that is no object', fleet.sign('["EdDSA"]', payload), 'malformed'],
    ['a header that is no JSON', fleet.sign('EdDSA', payload), 'malformed'],
    ['HS256 with the API key, named as an issuer', mintWith(signingKey(apiKey), 'HS256', payload), 'accepted'],
    ['HS256 with the public key in PEM', mintWith(fleet.publicKey, 'HS256', payload), 'bad signature'],
    ['HS256 with the public key in DER', mintWith(derOf(fleet), 'HS256', payload), 'bad signature'],
    ['HS256 with the bytes of the public key', mintWith(derOf(fleet).subarray(-32), 'HS256', payload), 'bad signature'],
    ['EdDSA, with an HMAC by the public key', mintWith(fleet.publicKey, 'EdDSA', payload), 'bad signature'],
    ['EdDSA, with an HMAC of 64 bytes', mintWith(derOf(fleet), 'EdDSA', payload, 'sha512'), 'bad signature'],
  ]
  for (const [name, token, why] of cases) t.equal(await refusalOf(authenticator, token), why, name)

  const [header = '', claims = '', signature = ''] = fleet.token().split('.')
  for (const [name, token] of [
    [
      'stray bits in the signature',
      `${header}.${claims}.${signature.slice(0, -1)}${signature.endsWith('A') ? 'B' : 'h'}`,
    ],
    ['padding', `${header}.${claims}.${signature}==`],
    ['a part more', `${header}.${claims}.x.${signature}`],
    ['the signature twice', `${header}.${claims}.${signature}.${signature}`],
    ['a character in front', `!${header}.${claims}.${signature}`],
    ['base64', `${header}.${claims}.+${signature.slice(1)}`],
    ['an empty header', `.${claims}.${signature}`],
    ['an empty payload', `${header}..${signature}`],
    ['nothing but a signature', `.${signature}`],
    ['no signature', `${header}.${claims}.`],
  ] as const)
    t.equal(await refusalOf(authenticator, token), 'malformed', name)
  t.equal(await refusalOf(authenticator, `${header}.${claims}.${'A'.repeat(86)}`), 'bad signature', 'all zero')
})

function mintWith(key: string | Uint8Array, alg: string, payload: Buffer, hash = 'sha256'): string {
  const input = `${Buffer.from(JSON.stringify({ alg, kid: 'fleet' })).toString('base64url')}.${payload.toString('base64url')}`
  return `${input}.${createHmac(hash, key).update(input).digest('base64url')}`
}

function derOf({ publicKey }: TestIssuer): Buffer {
  return createPublicKey(publicKey).export({ type: 'spki', format: 'der' })
}

t.test('claims', async t => {
  const { fleet, put, clock, authenticator } = setUp({ leewayS: 600 })
  put(fleet, { roles: ['admin:r', 'moderator:rw'], maxAgeS: 3600 })
  const now = Math.floor(clock.now() / 1000)
  const ok = { roles: ['admin:r'], iat: now, exp: now + 3600 }
  const header = '{"alg":"EdDSA","kid":"fleet"}'
  for (const [name, claims, why] of [
    ['as it should be', ok, 'accepted'],
    ['no roles at all', { ...ok, roles: [] }, 'accepted'],
    ['a minute ahead', { ...ok, iat: now + 50, exp: now + 60 }, 'accepted'],
    ['more than that', { ...ok, iat: now + 70, exp: now + 80 }, 'not yet valid'],
    ['expired: the leeway does not count', { ...ok, iat: now - 100, exp: now - 1 }, 'expired'],
    ['nbf', { ...ok, nbf: now + 10 }, 'not yet valid'],
    ['nbf a text', { ...ok, nbf: 'now' }, 'malformed'],
    ['a second too long', { ...ok, exp: now + 3601 }, 'lifetime exceeds that of the issuer'],
    ['from long ago', { ...ok, iat: now - 3601, exp: now + 1 }, 'lifetime exceeds that of the issuer'],
    ['iat a fraction', { ...ok, iat: now - 0.5, exp: now + 3599.5 }, 'accepted'],
    ['no iat', { ...ok, iat: undefined }, 'malformed'],
    ['no exp', { ...ok, exp: undefined }, 'malformed'],
    ['iat a text', { ...ok, iat: String(now) }, 'malformed'],
    ['exp a text', { ...ok, exp: String(now + 1) }, 'malformed'],
    ['exp at iat', { ...ok, exp: now }, 'malformed'],
    ['exp before iat', { ...ok, iat: now + 20, exp: now + 10 }, 'malformed'],
    ['a right that the issuer has not', { ...ok, roles: ['admin:rw'], aud: '*' }, 'roles exceed those of the issuer'],
    ['one of two', { ...ok, roles: ['admin:r', 'admin:w'], aud: '*' }, 'roles exceed those of the issuer'],
    ['rights that it has', { ...ok, roles: ['moderator:wr', 'admin:r'], aud: '*' }, 'accepted'],
    ['an unknown role', { ...ok, roles: ['root:r'] }, 'malformed'],
    ['roles a text', { ...ok, roles: 'admin:r' }, 'malformed'],
    ['no roles', { ...ok, roles: undefined }, 'malformed'],
  ] as const)
    t.equal(await refusalOf(authenticator, fleet.sign(header, JSON.stringify(claims))), why, name)
  for (const [name, json] of [
    ['iat beyond any number', `{"roles":[],"iat":-1e999,"exp":${now + 9}}`],
    ['exp beyond any number', `{"roles":[],"iat":${now},"exp":1e999}`],
    ['a name twice', `{"roles":[],"roles":[],"iat":${now},"exp":${now + 9}}`],
    ['no object', '[]'],
  ] as const)
    t.equal(await refusalOf(authenticator, fleet.sign(header, json)), 'malformed', name)
})

t.test('aud', async t => {
  const { fleet, authenticator, rename } = setUp()
  const check = async (aud: unknown, why: string, roles = ['admin:r']) =>
    t.equal(await refusalOf(authenticator, fleet.token({ aud, roles })), why, `${JSON.stringify(aud)}, ${roles}`)
  for (const aud of ['*', 'serial:S1', 'host:lobby', 'group:tv', ['group:south', 'group:north'], ['x', '*']])
    for (const roles of [['admin:r'], ['admin:rw'], ['moderator:w']]) await check(aud, 'accepted', roles)
  for (const aud of [
    '',
    [],
    ['serial:S2'],
    'serial:s1',
    'S1',
    'lobby',
    'host:lobby.local',
    'group:',
    'serial:',
    'host:',
    '**',
  ])
    await check(aud, 'not for this device')
  for (const aud of [null, 1, {}, [1], ['*', null], [['*']]]) await check(aud, 'malformed')
  await check(undefined, 'accepted')
  await check(undefined, 'accepted', ['admin:r', 'moderator:r'])
  for (const role of ['admin:w', 'admin:rw', 'moderator:w', 'moderator:wr'])
    await check(undefined, 'not for this device', ['admin:r', role])

  rename({ serial: '', hostname: '', groups: [''] })
  for (const aud of ['serial:', 'host:', 'group:', ['serial:', 'host:undefined', 'serial:undefined']])
    await check(aud, 'not for this device')
  rename({ serial: undefined, hostname: undefined, groups: [] })
  await check('serial:undefined', 'not for this device')
})

t.test('issuer, key, roles, maxAgeS, aud and clock are checked at each use', async t => {
  const { fleet, inForce, put, clock, apiKey, authenticator, rename } = setUp({ builtAt: Date.now() - 3_600_000 })
  const token = fleet.token({ aud: 'host:lobby' })
  const credential = await authenticator.authenticate([token], 'a')
  const holds = async (why: string | undefined) => {
    t.equal(authenticator.refusalNow(credential), why)
    t.equal(await refusalOf(authenticator, token), why ?? 'accepted')
  }
  await holds(undefined)

  put(fleet, { roles: ['admin:rw'] })
  await holds(undefined)
  put(fleet, { roles: ['admin:r'] })
  await holds('issuer changed')
  put(fleet, { maxAgeS: 3599 })
  await holds('issuer changed')
  put(new TestIssuer('fleet'))
  await holds('issuer changed')
  inForce.delete('fleet')
  await holds('issuer removed')
  put(fleet, { maxAgeS: 3600 })
  await holds(undefined)

  rename({ hostname: 'attic' })
  await holds('not for this device')
  rename({ hostname: 'lobby' })
  const iatMs = 1000 * Number(credential.issued?.iat)
  t.equal(authenticator.refusalNow(credential, iatMs - 60_000), undefined, 'a clock may be a minute late')
  t.equal(authenticator.refusalNow(credential, iatMs - 60_001), 'not yet valid')
  clock.step(-120_000)
  await holds('not yet valid')
  clock.step(-3_600_000)
  await holds('clock not set')
  clock.step(3_720_000)
  await holds(undefined)
  t.ok(Math.abs(authenticator.validMs(credential) - 3_600_000) < 60_000)

  authenticator.replaceKey(generateKey())
  await holds(undefined)
  inForce.delete('fleet')
  await holds('issuer removed')
  put(fleet)
  t.equal(await refusalOf(authenticator, mint(apiKey, { roles: [] })), 'bad signature')
  clock.step(3_600_000)
  await holds('expired')
})

t.test('without an API key, issuers are accepted, and nothing else', async t => {
  const { fleet, inForce, clock, apiKey } = setUp()
  const options = { ...NO_ISSUERS, clock, builtAt: 0, leewayS: 0, log: () => undefined, issuers: inForce }
  const authenticator = new Authenticator(undefined, options)
  t.equal(await refusalOf(authenticator, apiKey), 'key unreadable')
  t.equal(await refusalOf(authenticator, mint(apiKey, { roles: [] })), 'key unreadable')
  t.strictSame(await grantsOf(authenticator, fleet.token()), ['admin:r', 'admin:w'])
})

t.test('an issuer that changes while a signature is verified counts as it is then', async t => {
  const { fleet, inForce, put, authenticator } = setUp()
  const verifying = refusalOf(authenticator, fleet.token())
  inForce.delete('fleet')
  t.equal(await verifying, 'issuer removed')
  put(fleet)
  const another = refusalOf(authenticator, fleet.token({ jti: 2 }))
  put(new TestIssuer('fleet'))
  t.equal(await another, 'issuer changed')
  const third = fleet.token({ jti: 3 })
  t.equal(await refusalOf(authenticator, third), 'bad signature')
  put(fleet)
  t.equal(await refusalOf(authenticator, third), 'accepted', 'no refusal is remembered')
})

t.test('the text as it stands is tried before the one in it', async t => {
  const { fleet, authenticator } = setUp()
  t.strictSame(await grantsOf(authenticator, fleet.token()), ['admin:r', 'admin:w'])
  const good = fleet.token({ jti: 1 })
  const bad = new TestIssuer('fleet').token()
  t.ok(await authenticator.authenticate(['dXNlcjpwYXNz', good], 'a'))
  t.equal(await refusalOf(authenticator, bad, 'x'), 'bad signature', 'that says more')
  t.equal(await refusalOf(authenticator, 'x', bad), 'bad signature')
  t.ok(await authenticator.authenticate([bad, good], 'a'))
})

t.test('at most 8 signatures of an address and 66 in all; more are refused with 503', async t => {
  const { fleet, authenticator } = setUp()
  const ask = (n: number, network: string): Promise<Credential> =>
    Promise.resolve(authenticator.authenticate([fleet.token({ jti: n })], network))

  const ofOne = Array.from({ length: 8 }, (_, n) => ask(n, 'a'))
  t.throws(() => authenticator.authenticate([fleet.token({ jti: 'ninth' })], 'a'), {
    ...{ status: 503, headers: ['Retry-After', '1'] },
    message: 'Too many new tokens of this address are being verified.',
  })
  t.ok(authenticator.authenticate([fleet.token({ jti: 0 })], 'a'), 'one that is being verified needs no place')
  const ofOthers = Array.from({ length: 58 }, (_, n) => ask(1_000 + n, `b${n % 29}`))
  t.throws(() => authenticator.authenticate([fleet.token({ jti: 'last' })], 'c'), {
    ...{ status: 503, headers: ['Retry-After', '1'] },
    message: 'Too many new tokens are being verified.',
  })
  const answers = await Promise.all([...ofOne, ...ofOthers])
  t.equal(answers.length, 66)
  t.ok(await ask(9_999, 'a'), 'then there is room again')
})
