/** Tokens made by other libraries are accepted or refused as they should be, and ours are accepted by them. */
import { createHmac } from 'node:crypto'
import * as jose from 'jose'
import jsonwebtoken from 'jsonwebtoken'
import t, { type Test } from 'tap'
import { run } from '../support/run.ts'
import { type Receiver, receiverd, startReceiver } from './support.ts'

const CHALLENGE = 'Bearer realm="receiverd"'
const MODERATOR_MINUTES = 10

/** The documented derivation, with Node's crypto only. */
function signingKey(apiKey: string): Buffer {
  return createHmac('sha256', 'ServiceApiJwt').update(apiKey).digest()
}

interface Claims {
  readonly roles?: unknown
  readonly exp?: number
  readonly nbf?: number
  readonly sub?: string
}

type Algorithm = 'HS256' | 'HS512' | 'none'

/** Makes a token from a signing key. */
type Mint = (claims: Claims, key: Buffer, alg: Algorithm) => string | Promise<string>

const byJose: Mint = (claims, key, alg) =>
  alg === 'none'
    ? new jose.UnsecuredJWT({ ...claims }).encode()
    : new jose.SignJWT({ ...claims }).setProtectedHeader({ alg, typ: 'JWT' }).setIssuedAt().sign(key)

const byJsonwebtoken: Mint = (claims, key, algorithm) =>
  jsonwebtoken.sign({ ...claims }, algorithm === 'none' ? '' : key, { algorithm })

/** Debian's python3-jwt, with the system's Python. */
const PYTHON = '/usr/bin/python3'
const MINT_BY_PYTHON = `
import json, sys, jwt
claims, key, alg = json.loads(sys.argv[1])
token = jwt.encode(claims, None if alg == 'none' else bytes.fromhex(key), algorithm=alg)
print(token)
`
const byPython: Mint = async (claims, key, alg) => {
  const { status, stdout, stderr } = await run(PYTHON, [
    ...['-c', MINT_BY_PYTHON],
    JSON.stringify([claims, key.toString('hex'), alg]),
  ])
  if (status !== 0) throw new Error(stderr)
  return stdout.trim()
}

async function hasPythonJwt(): Promise<boolean> {
  const found = await run(PYTHON, ['-c', 'import jwt']).catch(() => undefined)
  return found?.status === 0
}

/** A token's rights, by the answers that it gets; asking changes nothing. */
async function grantsOf(receiver: Receiver, token: string): Promise<readonly string[]> {
  const patch = { method: 'PATCH', body: '{}', headers: { 'Content-Type': 'application/json' } }
  const read = await receiver.fetchAs(token)
  const write = await receiver.fetchAs(token, '/system', patch)
  const answers = { r: read.status, w: write.status }
  return Object.entries(answers).map(([grant, status]) => `${grant} ${status}`)
}

async function checkMaker(t: Test, mint: Mint): Promise<void> {
  const receiver = await startReceiver(t)
  const key = signingKey(receiver.key)
  const now = Math.floor(Date.now() / 1000)

  const accepted: [claims: Claims, answers: readonly string[]][] = [
    [{ roles: ['admin:rw'] }, ['r 200', 'w 200']],
    [{ roles: ['admin:wr'], exp: now + 3600, nbf: now - 60, sub: 'panel-4' }, ['r 200', 'w 200']],
    [{ roles: ['admin:r'], exp: now + 3600 }, ['r 200', 'w 403']],
    [{ roles: ['admin:w'], exp: now + 3600 }, ['r 403', 'w 200']],
    [{ roles: ['admin:r', 'moderator:rw'] }, ['r 200', 'w 403']],
    [{ roles: ['moderator:rw'], exp: now + MODERATOR_MINUTES * 60 }, ['r 403', 'w 403']],
    [{ roles: [] }, ['r 403', 'w 403']],
  ]
  for (const [claims, answers] of accepted)
    t.same(await grantsOf(receiver, await mint(claims, key, 'HS256')), answers, JSON.stringify(claims))

  const good = { roles: ['admin:rw'], exp: now + 3600 }
  const refused: [why: string, reason: string, claims: Claims, key: Buffer, alg: Algorithm][] = [
    ['expired', 'expired', { ...good, exp: now - 1 }, key, 'HS256'],
    ['of tomorrow', 'not yet valid', { ...good, nbf: now + 3600 }, key, 'HS256'],
    ['HS512', 'malformed', good, key, 'HS512'],
    ['none', 'malformed', good, key, 'none'],
    ['of another API key', 'bad signature', good, signingKey(`${receiver.key.slice(0, -1)}?`), 'HS256'],
    ['signed with the API key itself', 'bad signature', good, Buffer.from(receiver.key), 'HS256'],
    ['signed with the text of the key', 'bad signature', good, Buffer.from(key.toString('hex')), 'HS256'],
    ['without roles', 'malformed', { exp: now + 3600 }, key, 'HS256'],
    ['with roles as a string', 'malformed', { ...good, roles: 'admin:rw' }, key, 'HS256'],
    ['with an unknown role', 'malformed', { ...good, roles: ['admin:r', 'root:rw'] }, key, 'HS256'],
  ]
  for (const [why, reason, claims, signedWith, alg] of refused) {
    const response = await receiver.fetchAs(await mint(claims, signedWith, alg))
    t.equal(response.status, 401, why)
    t.equal(
      response.headers.get('www-authenticate'),
      `${CHALLENGE}, error="invalid_token", error_description="${reason}"`,
      `${why}: the challenge`,
    )
  }

  const revoked = await mint(good, key, 'HS256')
  t.equal((await receiver.fetchAs(revoked)).status, 200)
  await receiver.fetch('/api-key', { method: 'POST' })
  t.equal((await receiver.fetchAs(revoked)).status, 401, 'a new API key revokes it')
}

t.jobs = 4
t.test('accepts tokens of jose', t => checkMaker(t, byJose))
t.test('accepts tokens of jsonwebtoken', t => checkMaker(t, byJsonwebtoken))
t.test('accepts tokens of PyJWT', { skip: (await hasPythonJwt()) ? false : 'install python3-jwt' }, t =>
  checkMaker(t, byPython),
)

t.test('other libraries verify what `receiverd token` prints', async t => {
  const receiver = await startReceiver(t)
  const key = signingKey(receiver.key)
  const before = Math.floor(Date.now() / 1000)
  const { status, stdout } = await receiverd([
    ...['token', '--root', receiver.root, '--role', 'admin:r', '--role', 'moderator:rw'],
    ...['--expires-in', '8h', '--subject', 'panel-4'],
  ])
  t.equal(status, 0)
  t.match(stdout, /^[\w-]+\.[\w-]+\.[\w-]+\n$/, 'a token alone')
  const token = stdout.trim()
  const claims = { roles: ['admin:r', 'moderator:rw'], sub: 'panel-4', iat: Number, exp: Number }

  const { payload, protectedHeader } = await jose.jwtVerify(token, key, { algorithms: ['HS256'] })
  t.equal(protectedHeader.alg, 'HS256')
  t.match(payload, claims)
  const { iat = 0, exp = 0 } = payload
  t.equal(exp - iat, 8 * 3600)
  t.ok(iat >= before && iat <= Date.now() / 1000)
  t.match(jsonwebtoken.verify(token, key, { algorithms: ['HS256'] }), claims)

  const other = signingKey('another')
  await t.rejects(jose.jwtVerify(token, other), { code: 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED' })
  t.throws(() => jsonwebtoken.verify(token, other), { message: 'invalid signature' })

  const endless = await receiverd(['token', '--root', receiver.root, '--role', 'admin:rw'])
  const unlimited = await jose.jwtVerify(endless.stdout.trim(), key)
  t.match(unlimited.payload, { roles: ['admin:rw'], exp: undefined, sub: undefined })
})
