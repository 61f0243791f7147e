import { createHmac } from 'node:crypto'
import t from 'tap'
import { Authenticator } from '../../src/auth/authenticator.ts'
import { JwtVerifier, mint, signingKey, validity } from '../../src/auth/jwt.ts'
import { systemClock } from '../../src/clock.ts'
import { Problem } from '../../src/problem.ts'
import vectors from '../fixtures/jwt-vectors.json' with { type: 'json' }
import { credentialIn, NO_ISSUERS } from '../support/credential.ts'

const { apiKey } = vectors

/** A token with any header and payload, validly signed. */
function forge(header: string, payload: string | Buffer): string {
  return signed(`${Buffer.from(header).toString('base64url')}.${Buffer.from(payload).toString('base64url')}`)
}

function signed(input: string): string {
  return `${input}.${createHmac('sha256', signingKey(apiKey)).update(input).digest('base64url')}`
}

const claims = (json: string) => forge('{"alg":"HS256"}', json)

t.test('the signing key is derived as documented', async t => {
  t.equal(Buffer.from(signingKey(apiKey)).toString('hex'), vectors.signingKeyHex)
  t.equal(
    createHmac('sha256', 'ServiceApiJwt').update(apiKey).digest('hex'),
    vectors.signingKeyHex,
    'and as another implementation of HMAC has it',
  )
})

t.test('every vector is accepted or refused as expected', async t => {
  const options = { clock: systemClock, log: () => undefined, builtAt: 0, leewayS: 0, ...NO_ISSUERS }
  const authenticator = new Authenticator(apiKey, options)
  for (const vector of vectors.vectors) {
    const outcome = attempt(authenticator, vector.token)
    if (vector.expect === 'accept') t.strictSame(outcome.grants, vector.grants?.toSorted(), vector.name)
    else t.match(outcome.challenge, /error="invalid_token"/, vector.name)
    if (vector.reason) t.match(outcome.challenge, vector.reason.replaceAll('-', ' '), `${vector.name}: the reason`)
  }
})

function attempt(authenticator: Authenticator, token: string): { grants?: string[]; challenge?: string } {
  try {
    return { grants: [...credentialIn(authenticator, token).grants].sort() }
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 401) throw error
    return { challenge: error.headers.join(': ') }
  }
}

t.test('a validly signed token with invalid contents is refused', async t => {
  const verifier = new JwtVerifier(apiKey)
  const cases: readonly (readonly [name: string, token: string])[] = [
    ['a name twice in the header', forge('{"alg":"HS256","alg":"HS256"}', '{"roles":[]}')],
    ['a name twice in the claims', claims('{"roles":["admin:r"],"roles":["admin:rw"]}')],
    ['a name twice, one of them escaped', claims('{"roles":["admin:r"],"\\u0072oles":["admin:rw"]}')],
    ['a name twice below the claims', claims('{"roles":[],"x":{"a":1,"a":2}}')],
    ['exp beyond any number', claims('{"roles":[],"exp":1e999}')],
    ['nbf below any number', claims('{"roles":[],"nbf":-1e999}')],
    ['exp true', claims('{"roles":[],"exp":true}')],
    ['exp a list', claims('{"roles":[],"exp":[4102444800]}')],
    ['crit empty', forge('{"alg":"HS256","crit":[]}', '{"roles":[]}')],
    ['crit null', forge('{"alg":"HS256","crit":null}', '{"roles":[]}')],
    ['a byte-order mark before the claims', claims('\ufeff{"roles":[]}')],
    ['a header that is a string', forge('"HS256"', '{"roles":[]}')],
    ['claims nested deeper than anyone needs', claims(`{"roles":[],"x":${'['.repeat(400)}${']'.repeat(400)}}`)],
    ['roles with a prototype', claims('{"__proto__":{"roles":["admin:rw"]}}')],
  ]
  for (const [name, token] of cases) t.equal(verifier.verify(token), 'malformed', name)
})

t.test('a validly signed token is refused in any spelling but the canonical one', async t => {
  const verifier = new JwtVerifier(apiKey)
  const [header = '', payload = ''] = claims('{"roles":["admin:r"]}').split('.')
  t.match(verifier.verify(signed(`${header}.${payload}`)), { sub: undefined })
  for (const input of [
    `!${header}.${payload}`,
    `${header}=.${payload}`,
    `${header}.!${payload}`,
    `${header}.${payload}=`,
    `${header.slice(0, 8)}\n${header.slice(8)}.${payload}`,
    `.${payload}`,
    `${header}.`,
    '.',
    payload,
    `x.${header}.${payload}`,
  ])
    t.equal(verifier.verify(signed(input)), 'malformed', JSON.stringify(input))
})

t.test('a token has the header that libraries expect', async t => {
  const [header = ''] = mint(apiKey, { roles: [] }).split('.')
  t.equal(Buffer.from(header, 'base64url').toString(), '{"alg":"HS256","typ":"JWT"}')
})

t.test('a subject that is no text is none', async t => {
  const verifier = new JwtVerifier(apiKey)
  for (const sub of [7, true, null, ['panel-4'], { name: 'panel-4' }])
    t.match(verifier.verify(mint(apiKey, { roles: ['admin:r'], sub })), { sub: undefined }, JSON.stringify(sub))
})

t.test('a token with any one character changed, or more, is refused', async t => {
  const verifier = new JwtVerifier(apiKey)
  const token = mint(apiKey, { roles: ['admin:r'], sub: 'panel-4' })
  t.not(typeof verifier.verify(token), 'string')
  const accepted: string[] = []
  for (let at = 0; at < token.length; at++)
    for (const other of ['A', 'b', '-', '_', '.', '=', '+', ' ', 'é']) {
      if (other === token[at]) continue
      const changed = token.slice(0, at) + other + token.slice(at + 1)
      const longer = token.slice(0, at) + other + token.slice(at)
      accepted.push(...[changed, longer].filter(text => typeof verifier.verify(text) !== 'string'))
    }
  t.strictSame(accepted, [])
})

t.test('exp is the first invalid moment, nbf the first valid one', async t => {
  const cases = [
    [{ exp: 1000, nbf: undefined }, 999_999, 0, undefined],
    [{ exp: 1000, nbf: undefined }, 1_000_000, 0, 'expired'],
    [{ exp: 1000, nbf: undefined }, 1_004_999, 5, undefined],
    [{ exp: 1000, nbf: undefined }, 1_005_000, 5, 'expired'],
    [{ exp: undefined, nbf: 1000 }, 999_999, 0, 'not yet valid'],
    [{ exp: undefined, nbf: 1000 }, 1_000_000, 0, undefined],
    [{ exp: undefined, nbf: 1000 }, 995_000, 5, undefined],
    [{ exp: 1e300, nbf: -1e300 }, 0, 0, undefined],
  ] as const
  for (const [times, now, leeway, expected] of cases)
    t.equal(validity(times, now, leeway), expected, JSON.stringify({ ...times, now, leeway }))
})
