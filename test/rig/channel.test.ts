/** A channel: its bundle, and the outcome, by receiverd in its sandbox, the socket of downloads, and a real RAUC. */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { UpdateState } from '../../src/update/state.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { NO_RIG } from './available.ts'
import { RAUC_FILES } from './rauc.ts'
import { startRig } from './rig.ts'
import { type Handler, redirect, serve } from './web.ts'

const MIB = 1024 * 1024
/** More than is synced at once. */
const CONTENT = randomBytes(18 * MIB)
const CONFIGURATION = '/usr/lib/rauc/system.conf'
const PLAIN = RAUC_FILES[CONFIGURATION].replace('compatible=receiver-rig', 'compatible=receiver-virt')
const DOWNLOAD = 'receiverd-download@*'

interface Seen {
  readonly url: string
  readonly range: string | undefined
  readonly ifRange: string | undefined
}

/** The server of a channel. */
async function serveChannel(t: Test) {
  const handlers: Record<string, Handler> = {}
  const seen: Seen[] = []
  const port = await serve(t, handlers, ({ url = '', headers: { range, 'if-range': ifRange } }) =>
    seen.push({ url, range, ifRange: ifRange as string | undefined }),
  )
  return { handlers, seen, port }
}

/** Sends a file, or the range asked. @param limit Bytes after which it stands still. */
function send(body: Buffer, limit = Number.POSITIVE_INFINITY): Handler {
  return ({ headers: { range = '' } }, response) => {
    const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range) ?? []
    const start = first === '' ? (last === '' ? 0 : Math.max(0, body.length - Number(last))) : Number(first)
    const headers = { 'Content-Length': body.length - start, ETag: '"v1"' }
    if (range === '') response.writeHead(200, headers)
    else response.writeHead(206, { ...headers, 'Content-Range': `bytes ${start}-${body.length - 1}/${body.length}` })
    const part = body.subarray(start, Math.min(body.length, start + limit))
    if (start + part.length < body.length) response.write(part)
    else response.end(part)
  }
}

const refuse =
  (status: number): Handler =>
  (_, response) =>
    response.writeHead(status).end('<secret of the server>')
/** Never answers. */
const hang: Handler = () => undefined

/** Keys and bundles as `make bundle` makes them. */
function bundles(folder: string) {
  const at = (name: string) => join(folder, name)
  const env = { ...process.env, LEVEL: '1', SOURCE_DATE_EPOCH: '1700000000' }
  writeFileSync(at('rootfs.ext4'), CONTENT)
  writeFileSync(at('small.ext4'), CONTENT.subarray(0, MIB))
  for (const name of ['ours', 'theirs']) execFileSync('build/image/keys.sh', [at(name), name], { env })
  let made = 0
  /** A bundle whose image is a file beside it, as no tool of ours makes it. */
  const leadsOut = () => {
    const manifest = '[update]\ncompatible=receiver-virt\nversion=1.1.0\n[bundle]\nformat=verity\n[image.rootfs]\n'
    mkdirSync(at('in'))
    writeFileSync(at('in/rootfs.ext4'), CONTENT.subarray(0, MIB))
    writeFileSync(at('in/manifest.raucm'), `${manifest}filename=../small.ext4\n`)
    const signer = [`--cert=${at('ours/sign.pem')}`, `--key=${at('ours/sign.key')}`]
    execFileSync('rauc', ['bundle', ...signer, at('in'), at('out')], { stdio: 'pipe' })
    return readFileSync(at('out'))
  }
  return {
    leadsOut,
    keyring: readFileSync(at('ours/ca.pem'), 'utf8'),
    make({ version = '1.1.0', board = 'virt', keys = 'ours', content = 'small' } = {}): Buffer {
      const file = at(`${++made}.raucb`)
      const signer = { KEY: at(`${keys}/sign.key`), CERT: at(`${keys}/sign.pem`), KEYRING: at(`${keys}/ca.pem`) }
      const settings = { ...env, ...signer, BOARD: board, VERSION: version }
      execFileSync('build/image/bundle.sh', [at(`${content}.ext4`), file], { env: settings, stdio: 'pipe' })
      return readFileSync(file)
    },
  }
}

t.test('a channel', { skip: NO_RIG || needs('rauc', 'mksquashfs', 'openssl') }, async t => {
  const { keyring, make, leadsOut } = bundles(temporaryFolder(t))
  const rig = await startRig(t, {
    isUpdated: true,
    files: { ...RAUC_FILES, [CONFIGURATION]: PLAIN, '/usr/lib/rauc/keyring.pem': keyring },
  })
  const { handlers, seen, port } = await serveChannel(t)
  const base = `http://${rig.hostAddress}:${port}`
  const state = async () => (await (await rig.fetch('/update')).json()) as UpdateState
  /** Resolves with the state once it is so. */
  const until = (is: (state: UpdateState) => unknown) =>
    eventually(async () => {
      const now = await state()
      return is(now) ? now : undefined
    }, 60_000).catch(async error => {
      throw new Error(`${error.message}: ${JSON.stringify(await state())}`)
    })
  const post = async (path: string, body?: object) => {
    const json = body && { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }
    const answer = await rig.fetch(`/update/${path}`, { method: 'POST', ...json })
    return [answer.status, (await answer.json()) as UpdateState] as const
  }
  const remove = async () => (await rig.fetch('/update/bundle', { method: 'DELETE' })).status
  const follow = async (channel: string) => {
    t.equal((await rig.patch({ update: { channel } })).status, 200)
  }
  const good = make({ content: 'rootfs' })
  const small = make()

  await t.test('its bundle is known from the signed end alone, and a success ends the failure before', async t => {
    const events = await rig.stream('/update/events')
    await follow(`${base}/good?token=s3cret`)
    for (const [handler, detail] of [
      [refuse(404), /refuses it/],
      [refuse(503), /at the moment/],
      [send(make({ keys: 'theirs' })), /signature/],
      [send(make({ board: 'raspberry-pi' })), /another board/],
    ] as const) {
      handlers.good = handler
      t.match(await post('check'), [202, {}])
      const { error } = await until(({ error }) => detail.test(error?.detail ?? ''))
      t.notMatch(JSON.stringify(error), /s3cret|secret of the server/)
    }
    seen.length = 0
    handlers.good = send(good)
    await post('check')
    const { available, state: activity, error } = await until(({ available }) => available)
    t.match([available?.version, activity, error], ['1.1.0', 'idle', undefined])
    t.match(seen, [{ url: '/good?token=s3cret', range: /^bytes=-\d{5}$/ }])
    t.equal(seen.length, 1)
    const told = await events.eventWhere(data => data.available !== undefined)
    t.match(told, { event: 'update.changed', data: { state: 'idle', available: { version: '1.1.0' } } })
    events.close()
  })

  await t.test('a download comes, is checked, and is told', async t => {
    const events = await rig.stream('/update/events')
    handlers.good = send(good)
    const [status, begun] = await post('download')
    t.match([status, begun.state, begun.bundle], [202, 'downloading', { source: 'url', receivedBytes: 0 }])
    await events.eventWhere(data => data.state === 'downloading')
    const told = await events.eventWhere(data => data.state === 'downloaded')
    t.match(told.data, { bundle: { version: '1.1.0', bytes: good.length, receivedBytes: good.length, source: 'url' } })
    t.match(await state(), told.data)
    t.ok(readFileSync(`/proc/${rig.pid}/root/data/update/bundle`).equals(good))
    events.close()
    t.equal(await remove(), 204)
    t.notMatch(JSON.stringify(await rig.journal()), 's3cret')
  })

  await t.test('it can be ended before its first byte, and after', async t => {
    for (const handler of [hang, send(good, MIB)]) {
      handlers.good = handler
      seen.length = 0
      await post('download')
      await eventually(() => seen.length > 0)
      if (handler !== hang) await until(({ bundle }) => bundle?.receivedBytes === MIB)
      t.equal((await post('download'))[0], 409)
      t.equal(await remove(), 204)
      const { state: activity, bundle, error } = await state()
      t.strictSame([activity, bundle, error], ['idle', undefined, undefined])
    }
    t.equal((await rig.shell('ls -A /data/update')).trim(), '')
  })

  const short = !process.env.PROOF && 'PROOF=1 is not set: it takes its pauses'
  await t.test('a server that cannot send it at the moment is asked again', { skip: short }, async t => {
    handlers.good = (request, response) => (seen.length < 2 ? refuse(503) : send(small))(request, response)
    seen.length = 0
    await post('download')
    await until(({ state }) => state === 'downloaded')
    t.equal(seen.length, 2)
    t.equal(await remove(), 204)
  })

  await t.test('it goes on where it was after a restart of the service, and after its sudden death', async t => {
    for (const [end, sent, offset] of [
      ['restart', MIB, MIB],
      // As much as was durable.
      ['kill --signal=KILL', 17 * MIB, 16 * MIB],
    ] as const) {
      handlers.good = send(good, sent)
      await post('download')
      await until(({ bundle }) => bundle?.receivedBytes === sent)
      seen.length = 0
      handlers.good = send(good)
      await rig.shell(`systemctl ${end} receiverd`)
      await eventually(() => seen.length > 0)
      t.match(seen, [{ url: '/good?token=s3cret', ifRange: '"v1"' }])
      const [, from = ''] = /^bytes=(\d+)-$/.exec(seen[0]?.range ?? '') ?? []
      t.ok(Number(from) >= offset && Number(from) <= sent, `${end}: from ${from}`)
      await eventually(async () => (await state().catch(() => undefined))?.state === 'downloaded', 60_000)
      t.ok(readFileSync(`/proc/${rig.pid}/root/data/update/bundle`).equals(good), end)
      t.notMatch(await rig.readFile('/data/update/bundle.json'), 's3cret')
      t.equal(await remove(), 204)
    }
  })

  await t.test('another channel is set while one is asked', async t => {
    let letGo: () => void = () => undefined
    handlers.slow = (request, response) => {
      letGo = () => send(make({ version: '1.3.0' }))(request, response)
    }
    handlers.fast = send(make({ version: '1.2.0' }))
    await follow(`${base}/slow`)
    t.notOk((await until(({ available }) => !available)).available, 'the version of the channel before')
    seen.length = 0
    await post('check')
    await eventually(() => seen.length > 0)
    await follow(`${base}/fast`)
    await post('check')
    t.equal((await until(({ available }) => available)).available?.version, '1.2.0')
    letGo()
    await rig.shell(`until [ -z "$(systemctl list-units --no-legend '${DOWNLOAD}')" ]; do sleep 0.1; done`)
    t.equal((await state()).available?.version, '1.2.0')
  })

  await t.test('bundles that are refused, and what is left of them', async t => {
    const flip = (at: number) => {
      const bytes = Buffer.from(small)
      bytes[at] = (bytes[at] ?? 0) ^ 1
      return bytes
    }
    handlers.there = send(small)
    for (const [name, handler, type, detail] of [
      ['a foreign key', send(make({ keys: 'theirs' })), 'bundle-signature', /signed/],
      ['another board', send(make({ board: 'raspberry-pi' })), 'bundle-compatible', /./],
      ['too old', send(make({ version: '0.4.9' })), 'bundle-too-old', /./],
      ['a bit of the signature', send(flip(small.length - 40)), 'bundle-signature', /./],
      ['a bit of the manifest', send(flip(small.lastIndexOf('receiver-virt'))), 'bundle-signature', /./],
      ['its image is a file of the device', send(leadsOut()), 'bundle-damaged', /not in it/],
      ['its end is missing', send(small.subarray(0, -9)), 'bundle-damaged', /./],
      [
        'too large',
        (_: unknown, response: ServerResponse) =>
          void response.writeHead(200, { 'Content-Length': 2 ** 31 }).write('a'),
        'download-failed',
        /too large/,
      ],
      [
        'without an end',
        (_: unknown, response: ServerResponse) => void response.writeHead(200).write('a'),
        'download-failed',
        /how large/,
      ],
      ['to a file', redirect('file:///etc/shadow'), 'download-failed', /something other/],
      ['to where it is not', redirect('/../../etc/shadow'), 'download-failed', /refuses/],
    ] as const) {
      handlers['..%2fbad'] = handler
      await post('download', { url: `${base}/..%2fbad?token=s3cret` })
      const { state: activity, error, bundle } = await until(({ state }) => state !== 'downloading')
      t.match([activity, error], ['failed', { type: `urn:receiverd:problem:${type}`, detail }], name)
      t.notOk(bundle, name)
      t.equal((await rig.shell('ls -A /data/update')).trim(), '', name)
      t.equal((await post('install'))[0], 409, name)
    }
    t.notMatch(JSON.stringify([await rig.journal(), await state()]), 's3cret')
  })

  await t.test('a bundle that was replaced after it was checked is not installed', async t => {
    await post('download', { url: `${base}/there` })
    await until(({ state }) => state === 'downloaded')
    writeFileSync(`/proc/${rig.pid}/root/data/update/bundle`, make({ keys: 'theirs', version: '9.0.0' }))
    t.match(await post('install'), [422, { type: 'urn:receiverd:problem:bundle-signature' }])
    t.match(await rig.shell('fw_printenv BOOT_ORDER'), 'BOOT_ORDER=A B', 'nothing was touched')
  })
})
