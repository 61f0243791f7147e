import t from 'tap'
import { Authenticator, type Credential } from '../../src/auth/authenticator.ts'
import { credentialRequired, insufficientScope, RefusedCredential } from '../../src/auth/challenge.ts'
import { type Issuer, issuerIn } from '../../src/auth/issuer.ts'
import { mint } from '../../src/auth/jwt.ts'
import type { Problem } from '../../src/problem.ts'
import { TestIssuer } from '../support/issuer.ts'

const KEY = 'A'.repeat(43)
const NOW_S = 1_800_000_000
const EMPTY =
  'The credential is empty. With Basic, the API key or token is the password and not the user name: curl -u :CREDENTIAL.'
const NEITHER =
  'The credential is neither an API key (43 characters, unless the device was given its key) nor a token (three parts, ' +
  'separated by dots).'
const BAD_TOKEN =
  'The token is malformed. It must be signed with HS256, its roles must be a list such as ["admin:r"], and exp and nbf must ' +
  'be numbers of seconds since 1970. A token of an issuer must be signed with EdDSA or ES256, as suits its key, and have kid ' +
  '(the name of the issuer), iat and exp.'
const NOT_FOR_THIS =
  'The aud of the token does not name this device. It must have one of serial:S, host:H, group:G and *; a token that grants ' +
  'no writing may do without aud.'

function setUp() {
  const fleet = new TestIssuer('fleet')
  const issuers = new Map<string, Issuer>()
  const put = (issuer: TestIssuer) =>
    issuers.set('fleet', issuerIn('fleet', Buffer.from(issuer.file({ roles: ['admin:r'] }))))
  put(fleet)
  const clock = { nowMs: NOW_S * 1000, now: () => clock.nowMs }
  const options = {
    ...{ clock, builtAt: 0, leewayS: 0, issuers },
    log: () => undefined,
    device: () => ({ serial: 'S1', hostname: 'lobby', groups: [] }),
  }
  const issued = (claims: object = {}) => fleet.token({ roles: ['admin:r'], ...claims }, {}, NOW_S * 1000)
  return { fleet, issuers, put, clock, options, authenticator: new Authenticator(KEY, options), issued }
}

/** The answer's header and detail, and the reason in the log. */
const answer = (refusal: string, detail: string) => [
  `WWW-Authenticate: Bearer realm="receiverd", error="invalid_token", error_description="${refusal}"`,
  detail,
  refusal,
]

async function answerTo(act: () => unknown): Promise<readonly string[]> {
  try {
    await act()
    return ['nothing is refused']
  } catch (error) {
    if (!(error instanceof RefusedCredential)) throw error
    return [error.headers.join(': '), error.message, error.refusal]
  }
}

t.test('the answer to a credential that is refused says why', async t => {
  const { fleet, options, authenticator, issued } = setUp()
  const token = (claims: object) => mint(KEY, { roles: ['admin:r'], ...claims })
  const cases: readonly (readonly [texts: readonly string[], refusal: string, detail: string])[] = [
    [[''], 'malformed', EMPTY],
    [['', 'x'], 'malformed', EMPTY],
    [['x', ''], 'malformed', EMPTY],
    [['x'], 'malformed', NEITHER],
    [['a.b'], 'malformed', NEITHER],
    [['.b.c'], 'malformed', NEITHER],
    [['a..c'], 'malformed', NEITHER],
    [['a.b.'], 'malformed', NEITHER],
    [['a.b.c.d'], 'malformed', NEITHER],
    [['a.b.c'], 'malformed', BAD_TOKEN],
    [['x', 'a.b.c'], 'malformed', BAD_TOKEN],
    [['a.b.c', 'x'], 'malformed', BAD_TOKEN],
    [[token({ roles: 'admin:r' })], 'malformed', BAD_TOKEN],
    [
      [mint('B'.repeat(43), { roles: ['admin:r'] })],
      'bad signature',
      'The token was not made from the API key in force, or not by the issuer that it names.',
    ],
    [['B'.repeat(43)], 'unknown key', 'This is not the API key in force.'],
    [['é'.repeat(43)], 'unknown key', 'This is not the API key in force.'],
    [['A'.repeat(4_097)], 'too long', 'The credential is longer than 4096 characters.'],
    [['A'.repeat(4_096)], 'malformed', NEITHER],
    [[token({ exp: NOW_S })], 'expired', 'The token has expired.'],
    [[token({ nbf: NOW_S + 1 })], 'not yet valid', 'The token is not valid yet.'],
    [[fleet.token({}, { kid: 'nobody' })], 'unknown issuer', 'This device has no issuer of the name in kid.'],
    [
      [issued({ roles: ['admin:w'] })],
      'roles exceed those of the issuer',
      'The token asks for more than its issuer may grant on this device.',
    ],
    [
      [issued({ exp: NOW_S + 86_401 })],
      'lifetime exceeds that of the issuer',
      'From iat to exp, the token lives longer than its issuer may let it on this device.',
    ],
    [[issued({ aud: 'host:attic' })], 'not for this device', NOT_FOR_THIS],
  ]
  for (const [texts, refusal, detail] of cases)
    t.strictSame(
      await answerTo(() => authenticator.authenticate(texts, 'a')),
      answer(refusal, detail),
      `${refusal}: ${texts.join(' or ').slice(0, 40)}`,
    )

  const withoutKey = new Authenticator(undefined, options)
  for (const text of [KEY, '', 'x', token({})])
    t.strictSame(
      await answerTo(() => withoutKey.authenticate([text], 'a')),
      answer(
        'key unreadable',
        'The API key of this device cannot be read, so only tokens of issuers are accepted. Its log has the reason; ' +
          '`receiverd key rotate` on the device makes a new key.',
      ),
    )
})

t.test('so does the answer to one that was accepted before', async t => {
  const { issuers, put, clock, authenticator, issued } = setUp()
  const holds = async (credential: Credential, refusal: string, detail: string) =>
    t.strictSame(await answerTo(() => authenticator.recheck(credential)), answer(refusal, detail))
  const dated = await authenticator.authenticate([mint(KEY, { roles: [], exp: NOW_S + 60 })], 'a')
  const ofFleet = await authenticator.authenticate([issued()], 'a')
  for (const credential of [dated, ofFleet]) t.doesNotThrow(() => authenticator.recheck(credential))
  put(new TestIssuer('fleet'))
  await holds(
    ofFleet,
    'issuer changed',
    'The issuer of the token has another key on this device, or may not make such a token any more.',
  )
  issuers.delete('fleet')
  await holds(ofFleet, 'issuer removed', 'The issuer of the token has been removed from this device.')
  clock.nowMs = -1
  await holds(
    dated,
    'clock not set',
    'The clock of this device is not set, so it cannot check when a token is valid (exp, nbf).',
  )
  authenticator.replaceKey('B'.repeat(43))
  await holds(dated, 'key replaced', 'The API key has been replaced, which revoked all tokens made from the old one.')
})

t.test('without a credential the challenge names no error; with too few grants, the scope that suffices', async t => {
  const { authenticator } = setUp()
  t.throws(() => authenticator.authenticate([], 'a'), credentialRequired())
  const cases: readonly (readonly [problem: Problem, status: number, detail: string, challenge: string])[] = [
    [
      credentialRequired(),
      401,
      'Send the API key or a token, as Authorization: Bearer CREDENTIAL or as ?apiKey=CREDENTIAL.',
      'WWW-Authenticate: Bearer realm="receiverd"',
    ],
    [
      insufficientScope('No.', []),
      403,
      'No.',
      'WWW-Authenticate: Bearer realm="receiverd", error="insufficient_scope"',
    ],
    [
      insufficientScope('No.', ['admin:r', 'moderator:r']),
      403,
      'No.',
      'WWW-Authenticate: Bearer realm="receiverd", error="insufficient_scope", scope="admin:r moderator:r"',
    ],
  ]
  for (const [{ status, message, headers }, ...answer] of cases)
    t.strictSame([status, message, headers.join(': ')], answer)
})
