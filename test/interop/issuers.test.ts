/** Tokens of issuers: other libraries, and the fleet's program, make them; devices that have the public key take them. */
import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import * as jose from 'jose'
import t, { type Test } from 'tap'
import { currentBundle, FLEET_PROGRAM } from '../../build/bundle-file.ts'
import { ALGORITHMS, type Algorithm } from '../../src/auth/issuer.ts'
import { temporaryFolder } from '../support/folder.ts'
import { run } from '../support/run.ts'
import { type Receiver, startReceiver } from './support.ts'

const HOUR_S = 3_600
const CHALLENGE = 'Bearer realm="receiverd"'

/** A private key in PEM, and its public one. */
interface Pair {
  readonly privateKey: string
  readonly publicKey: string
}

interface Claims {
  readonly roles: readonly string[]
  readonly iat?: number
  readonly exp?: number
  readonly aud?: string | readonly string[]
}

interface Made {
  readonly pair: Pair
  readonly alg: Algorithm
  /** Undefined for a token without one. */
  readonly kid: string | undefined
  readonly claims: Claims
}

type Make = (made: Made) => Promise<string>

function pairOf(alg: Algorithm): Pair {
  const { privateKey, publicKey } =
    alg === 'EdDSA' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKey: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  }
}

const byJose: Make = async ({ pair, alg, kid, claims }) =>
  new jose.SignJWT({ ...claims } as jose.JWTPayload)
    .setProtectedHeader({ alg, ...(kid !== undefined && { kid }) })
    .sign(await jose.importPKCS8(pair.privateKey, alg))

/** Debian's python3-jwt with python3-cryptography, with the system's Python. */
const PYTHON = '/usr/bin/python3'
const MAKE_BY_PYTHON = `
import json, sys, jwt
for line in sys.stdin:
    key, alg, kid, claims = json.loads(line)
    print(jwt.encode(claims, key, algorithm=alg, headers=None if kid is None else {'kid': kid}), flush=True)
`

/** One Python for all tokens: its start takes longer than a token. */
function startPython(t: Test): Make {
  const python = spawn(PYTHON, ['-c', MAKE_BY_PYTHON], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => python.kill())
  const lines = createInterface({ input: python.stdout })[Symbol.asyncIterator]()
  return async ({ pair, alg, kid, claims }) => {
    python.stdin.write(`${JSON.stringify([pair.privateKey, alg, kid ?? null, claims])}\n`)
    const { value, done } = await lines.next()
    if (done) throw new Error('Python has ended')
    return value
  }
}

async function hasPythonJwt(): Promise<boolean> {
  const found = await run(PYTHON, ['-c', 'import jwt, cryptography']).catch(() => undefined)
  return found?.status === 0
}

function put(receiver: Receiver, name: string, { publicKey }: Pair, more: object = {}): Promise<Response> {
  return receiver.fetch(`/issuers/${name}`, {
    method: 'PUT',
    body: JSON.stringify({ publicKey, roles: ['admin:rw'], ...more }),
    headers: { 'Content-Type': 'application/json' },
  })
}

/** A device with groups, and its names in tokens. */
async function startMember(t: Test): Promise<{ readonly receiver: Receiver; readonly names: readonly string[] }> {
  const receiver = await startReceiver(t)
  t.equal((await receiver.patch({ groups: ['lobby', 'floor-4'] })).status, 200)
  const { hardware, hostname } = (await receiver.system()).value as { hardware: { serial: string }; hostname: string }
  t.match(hardware.serial, /./)
  t.match(hostname, /./)
  return { receiver, names: [`serial:${hardware.serial}`, `host:${hostname}`, 'group:floor-4'] }
}

/** The status of a change that changes nothing. */
async function write(receiver: Receiver, token: string): Promise<number> {
  const patch = { method: 'PATCH', body: '{}', headers: { 'Content-Type': 'application/json' } }
  return (await receiver.fetchAs(token, '/system', patch)).status
}

async function checkMaker(t: Test, make: Make): Promise<void> {
  const { receiver, names } = await startMember(t)
  const now = Math.floor(Date.now() / 1000)
  const life = { iat: now, exp: now + HOUR_S }
  for (const alg of ALGORITHMS) {
    const [pair, other] = [pairOf(alg), pairOf(alg)]
    const name = `by-${alg.toLowerCase()}`
    t.equal((await put(receiver, name, pair)).status, 201)
    const made = (claims: object, more: Partial<Made> = {}) =>
      make({ pair, alg, kid: name, claims: { roles: ['admin:rw'], ...life, ...claims }, ...more })

    for (const aud of [...names, '*', ['serial:of-another', ...names]])
      t.equal(await write(receiver, await made({ aud })), 200, `${alg}, for ${aud}`)
    const reading = await made({ roles: ['admin:r'] })
    t.equal((await receiver.fetchAs(reading)).status, 200, `${alg}, for reading, without aud`)
    t.equal(await write(receiver, reading), 403)

    const refused: [why: string, reason: string, token: string][] = [
      ['signed with another key', 'bad signature', await made({ aud: '*' }, { pair: other })],
      ['expired', 'expired', await made({ aud: '*', iat: now - HOUR_S, exp: now - 1 })],
      ['without kid', 'malformed', await made({ aud: '*' }, { kid: undefined })],
      ['of an issuer that is not there', 'unknown issuer', await made({ aud: '*' }, { kid: 'nobody' })],
      ['for another device', 'not for this device', await made({ aud: 'serial:of-another' })],
      ['for a group of others', 'not for this device', await made({ aud: ['group:hall', 'group:'] })],
      ['for writing, without aud', 'not for this device', await made({})],
      ['for reading, for another', 'not for this device', await made({ roles: ['admin:r'], aud: 'host:of-another' })],
      ['without iat', 'malformed', await made({ aud: '*', iat: undefined })],
      ['without exp', 'malformed', await made({ aud: '*', exp: undefined })],
      ['of a week', 'lifetime exceeds that of the issuer', await made({ aud: '*', exp: now + 7 * 24 * HOUR_S })],
      [
        'of more roles',
        'roles exceed those of the issuer',
        await made({ roles: ['admin:r', 'moderator:r'], aud: '*' }),
      ],
    ]
    for (const [why, reason, token] of refused) {
      const response = await receiver.fetchAs(token)
      t.equal(response.status, 401, `${alg}, ${why}`)
      t.equal(
        response.headers.get('www-authenticate'),
        `${CHALLENGE}, error="invalid_token", error_description="${reason}"`,
        `${alg}, ${why}: the challenge`,
      )
    }

    const token = await made({ aud: '*' })
    t.equal((await receiver.fetchAs(token)).status, 200)
    t.equal((await put(receiver, name, other)).status, 200)
    t.equal((await receiver.fetchAs(token)).status, 401, `${alg}: a token that is remembered ends with its key`)
  }
}

t.jobs = 3
t.test('takes tokens of jose', t => checkMaker(t, byJose))
t.test(
  'takes tokens of PyJWT',
  { skip: (await hasPythonJwt()) ? false : 'install python3-jwt python3-cryptography' },
  t => checkMaker(t, startPython(t)),
)

t.test('one token of `receiverd-fleet token` for two devices, as a scraper has it', async t => {
  const devices = [await startReceiver(t), await startReceiver(t)]
  for (const alg of ALGORITHMS) {
    const pair = pairOf(alg)
    const folder = temporaryFolder(t)
    writeFileSync(join(folder, 'issuer.pem'), pair.privateKey, { mode: 0o600 })
    for (const device of devices)
      t.match((await put(device, 'monitoring', pair, { roles: ['admin:r'] })).status, /^20[01]$/)
    const make = async (...args: readonly string[]) => {
      const key = join(folder, 'issuer.pem')
      const all = [currentBundle(FLEET_PROGRAM), 'token', '--issuer', 'monitoring', '--issuer-key', key, ...args]
      const { status, stdout, stderr } = await run(process.execPath, all)
      if (status !== 0) throw new Error(stderr)
      return stdout.trim()
    }
    const token = await make('--role', 'admin:r', '--expires-in', '8h')
    for (const device of devices) {
      const scrape = await device.fetchAs(token, '/metrics')
      t.equal(scrape.status, 200, alg)
      t.match(await scrape.text(), 'receiverd_device_info{')
      t.equal(await write(device, token), 403)
    }

    const [first, second] = devices as [Receiver, Receiver]
    t.equal((await first.patch({ groups: ['lobby'] })).status, 200)
    const forLobby = await make('--role', 'admin:r', '--audience', 'group:lobby', '--expires-in', '8h')
    t.equal((await first.fetchAs(forLobby, '/metrics')).status, 200)
    t.match(await second.fetchAs(forLobby, '/metrics'), { status: 401 }, 'not in that group')

    const { payload, protectedHeader } = await jose.jwtVerify(token, await jose.importSPKI(pair.publicKey, alg))
    t.match(protectedHeader, { alg, kid: 'monitoring' })
    t.match(payload, { roles: ['admin:r'], iat: Number, exp: Number })
  }
})
