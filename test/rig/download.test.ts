/** Downloads by their unit, from a real server on the other end of the cable. */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type BundleRequest, Downloads } from '../../hal/os/downloads.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { NO_RIG } from './available.ts'
import { makeExpiring, untilExpired } from './rauc.ts'
import { startRig } from './rig.ts'
import { type Handler, redirect, serve } from './web.ts'

const MIB = 1024 * 1024
const KEYRING = '/etc/keyring.pem'
const BUNDLE = randomBytes(3 * MIB)
const ETAG = '"v1"'
const MANIFEST = '[update]\ncompatible=receiver\nversion=1.2.3\n\n[bundle]\nformat=verity\n'

/** A bundle's end: a signature that contains the manifest, and its size. */
function signed(folder: string, name: string): Buffer {
  const at = (file: string) => join(folder, file)
  const subject = ['-subj', `/CN=${name}`, '-days', '3650', '-keyout', at(`${name}.key`), '-out', at(`${name}.pem`)]
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...subject], { stdio: 'ignore' })
  const sign = ['-sign', '-binary', '-nodetach', '-outform', 'DER', '-nosmimecap']
  const cms = execFileSync('openssl', ['cms', ...sign, '-signer', at(`${name}.pem`), '-inkey', at(`${name}.key`)], {
    input: MANIFEST,
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  return endOf(cms)
}

function endOf(cms: Buffer): Buffer {
  const size = Buffer.alloc(8)
  size.writeBigUInt64BE(BigInt(cms.length))
  return Buffer.concat([cms, size])
}

function send(body: Buffer, etag = ETAG): Handler {
  return (request, response) => {
    const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(request.headers.range ?? '') ?? []
    const isOther = request.headers['if-range'] !== undefined && request.headers['if-range'] !== etag
    if ((first === '' && last === '') || isOther)
      return void response.writeHead(200, { 'Content-Length': body.length, ETag: etag }).end(body)
    const start = first === '' ? Math.max(0, body.length - Number(last)) : Number(first)
    const range = `bytes ${start}-${body.length - 1}/${body.length}`
    const headers = { 'Content-Length': body.length - start, 'Content-Range': range, ETag: etag }
    response.writeHead(206, headers).end(body.subarray(start))
  }
}

/** Sends for as long as somebody takes it. */
const endless =
  (headers: Readonly<Record<string, string>> = {}): Handler =>
  (_, response) => {
    response.writeHead(200, headers)
    const more = () => {
      while (response.write(Buffer.alloc(64 * 1024)));
    }
    response.on('drain', more)
    more()
  }

async function all(downloads: Downloads, request: BundleRequest) {
  const answer = await downloads.bundle(request)
  const chunks: Buffer[] = []
  for await (const chunk of answer.body) chunks.push(chunk)
  answer.close()
  return { ...answer, body: Buffer.concat(chunks) }
}

t.test('downloads', { skip: NO_RIG || needs('openssl') }, async t => {
  const folder = temporaryFolder(t)
  const [ours, foreign] = [signed(folder, 'ours'), signed(folder, 'foreign')]
  const flipped = Buffer.from(ours)
  const at = flipped.indexOf('1.2.3')
  flipped.write('9', at)
  const names = [
    '127.0.0.1 four.test',
    '::1 six.test',
    '169.254.1.1 link.test',
    '0.0.0.0 zero.test',
    '127.0.0.1 localhost',
  ]
  const rig = await startRig(t, {
    isUpdated: true,
    files: { [KEYRING]: readFileSync(join(folder, 'ours.pem'), 'utf8'), '/etc/hosts': `${names.join('\n')}\n` },
  })
  const seen: string[] = []
  const handlers: Record<string, Handler> = {
    good: send(Buffer.concat([BUNDLE, ours])),
    foreign: send(Buffer.concat([BUNDLE, foreign])),
    flipped: send(Buffer.concat([BUNDLE, flipped])),
    truncated: send(Buffer.concat([BUNDLE, ours]).subarray(0, BUNDLE.length + ours.length - 9)),
    huge: send(Buffer.concat([BUNDLE, Buffer.from('ffffffffffffffff', 'hex')])),
    tiny: send(Buffer.from('abc')),
    'no-range': (_, response) => response.writeHead(200, { 'Content-Length': BUNDLE.length }).end(BUNDLE),
    endless: endless(),
    'endless-range': endless({ 'Content-Length': `${2 ** 40}` }),
    'no-length': (_, response) => {
      response.write('a')
      response.end(BUNDLE)
    },
    broken: (_, response) => {
      response.writeHead(200, { 'Content-Length': BUNDLE.length, ETag: ETAG })
      response.write(BUNDLE.subarray(0, MIB), () => response.destroy())
    },
    'to-file': redirect('file:///etc/passwd'),
    'to-loopback': redirect('http://127.0.0.1:8080/api/v1/health'),
    'to-name': redirect('http://four.test:8080/api/v1/health'),
    'to-good': redirect('/good'),
    loop: redirect('/loop'),
  }
  const port = `:${await serve(t, handlers, ({ url = '' }) => seen.push(url))}`
  const base = `http://${rig.hostAddress}${port}`
  const downloads = new Downloads(`/proc/${rig.pid}/root/run/receiverd-download.sock`)
  const max = 64 * MIB
  const whole = Buffer.concat([BUNDLE, ours])

  await t.test('a bundle comes whole, by redirects as well', async t => {
    for (const name of ['good', 'to-good']) {
      const { body, ...answer } = await all(downloads, { url: `${base}/${name}?token=s3cret`, max })
      t.match(answer, { offset: 0, bytes: whole.length, etag: ETAG }, name)
      t.ok(body.equals(whole), name)
    }
  })

  await t.test('it goes on where it broke off, unless the file has changed', async t => {
    const broken = await all(downloads, { url: `${base}/broken`, max })
    t.ok(broken.bytes === BUNDLE.length && broken.body.equals(BUNDLE.subarray(0, MIB)), 'nothing was added to the body')
    const rest = await all(downloads, { url: `${base}/good`, max, from: { offset: MIB, etag: ETAG } })
    t.match(rest, { offset: MIB, bytes: whole.length })
    t.ok(rest.body.equals(whole.subarray(MIB)))
    const other = await all(downloads, { url: `${base}/good`, max, from: { offset: MIB, etag: '"v0"' } })
    t.match(other, { offset: 0, bytes: whole.length })
  })

  await t.test('refusals, in words that have nothing of the answer', async t => {
    const cases: readonly (readonly [url: string, message: RegExp])[] = [
      [`${base}/to-file`, /something other than https/],
      [`${base}/loop`, /redirects too often/],
      [`${base}/missing`, /refuses it/],
      [`${base}/no-length`, /how large/],
      [`${base}/endless`, /how large/],
      [`${base}/endless-range`, /too large/],
      ['file:///etc/passwd', /something other than https/],
      ['ftp://198.18.0.1/', /something other than https/],
      ['http://no-such-name.test/', /not known/],
      [`http://${rig.hostAddress}:1/`, /cannot be reached/],
    ]
    for (const [url, message] of cases) await t.rejects(downloads.bundle({ url, max }), { message }, url)
    await t.rejects(downloads.bundle({ url: `${base}/good`, max: MIB }), { message: /too large/ })
  })

  await t.test('this device and its links cannot be reached, by whatever name or redirect', async t => {
    t.match(await rig.run(['getent', 'ahosts', 'four.test']), /127\.0\.0\.1/)
    const hosts = [
      '127.0.0.1',
      '127.1.2.3',
      '[::1]',
      '[::ffff:127.0.0.1]',
      'localhost',
      'four.test',
      'six.test',
      '0.0.0.0',
      'zero.test',
      '[::]',
    ]
    const urls = [...hosts, rig.address, `[${rig.address6}]`].map(host => `http://${host}:8080/api/v1/health`)
    const links = ['http://169.254.169.254/', 'http://link.test/', 'http://[fe80::1%25eth0]/', 'http://224.0.0.251/']
    // They are dropped, so each of them takes until curl gives up. The socket takes 8 at a time.
    const refused = [...urls, ...links, `${base}/to-loopback`, `${base}/to-name`]
    // An answer is there before the unit that gave it has ended.
    const units = ['systemctl', 'list-units', '--legend=no', '--state=active,activating,deactivating']
    const areOver = async () => (await rig.run([...units, 'receiverd-download@*'])).trim() === ''
    for (let at = 0; at < refused.length; at += 6) {
      await eventually(areOver)
      await Promise.all(
        refused
          .slice(at, at + 6)
          .map(url =>
            t.rejects(downloads.bundle({ url, max }), { message: /cannot be reached|not understood|too slow/ }, url),
          ),
      )
    }
    // The same address answers to everybody else.
    t.match(await rig.shell('curl -s http://four.test:8080/api/v1/health'), /ok/)
  })

  await t.test('the signed end says which version it is, and the rest is not read', async t => {
    const asked = { keyring: KEYRING, purpose: 'any', isAsOfSigning: true }
    const manifest = (name: string) => downloads.manifest({ url: `${base}/${name}`, ...asked })
    t.equal(await manifest('good'), MANIFEST)
    t.equal(await manifest('to-good'), MANIFEST)
    const cases: readonly (readonly [name: string, message: RegExp])[] = [
      ['foreign', /signature/],
      ['flipped', /signature/],
      ['truncated', /not a bundle|signature/],
      ['huge', /not a bundle/],
      ['tiny', /not a bundle/],
      ['no-range', /Range/],
      ['endless', /Range/],
      ['endless-range', /Range/],
      ['missing', /refuses it/],
      ['to-file', /something other/],
      ['to-loopback', /cannot be reached|too slow/],
    ]
    for (const [name, message] of cases) await t.rejects(manifest(name), { message }, name)
  })

  await t.test('the certificate of a signer may have expired since', async t => {
    await makeExpiring(rig, '/root/expiring')
    await rig.shell(`cat /root/expiring.pem >>${KEYRING} && printf '${MANIFEST.replaceAll('\n', '\\n')}' | openssl cms -sign -binary \\
-nodetach -outform DER -nosmimecap -signer /root/expiring.pem -inkey /root/expiring.key >/root/cms`)
    const cms = readFileSync(`/proc/${rig.pid}/root/root/cms`)
    handlers.expired = send(Buffer.concat([BUNDLE, endOf(cms)]))
    await untilExpired(rig, '/root/expiring')
    const asked = { url: `${base}/expired`, keyring: KEYRING, purpose: 'any' }
    t.equal(await downloads.manifest({ ...asked, isAsOfSigning: true }), MANIFEST)
    await t.rejects(downloads.manifest({ ...asked, isAsOfSigning: false }), { message: /signature/ })
  })

  await t.test('the unit has a user of its own, stores nothing, and says no address', async t => {
    const slow = await downloads.bundle({ url: `${base}/good?token=s3cret`, max })
    const units = await rig.run(['systemctl', 'list-units', '--no-legend', '--plain', 'receiverd-download@*'])
    const [unit = ''] = units.split(' ')
    t.match(await rig.run(['systemctl', 'show', '--property=User', '--value', unit]), 'receiverd-download')
    const commands = await rig.run(['ps', '-e', '-o', 'user:32,args'])
    t.match(commands, /receiverd-download +curl/)
    t.notMatch(commands, 's3cret')
    slow.close()
    t.notMatch(JSON.stringify(await rig.journal()), 's3cret')
    await rig.shell('until [ -z "$(systemctl list-units --no-legend "receiverd-download@*")" ]; do sleep 0.1; done')
    await t.rejects(
      rig.run([
        'setpriv',
        '--reuid=uxplay',
        '--clear-groups',
        'busctl',
        'call',
        'de.pengutronix.rauc',
        '/',
        'de.pengutronix.rauc.Installer',
        'Mark',
        'ss',
        'active',
        'other',
      ]),
      /Access denied|AccessDenied/,
    )
  })
})
