/** The command line of the bundle, as an operator and a script see it. */

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { needs } from '../support/needs.ts'
import { type Output, run } from '../support/run.ts'
import { BUNDLE, type Receiver, receiverd, startReceiver } from './support.ts'

const KEY = /^[\w-]{43}\n$/
const ONE_LINE = /^receiverd: [^\n]+\n$/
/** Milliseconds within which a rotation by the command line must disconnect the clients of the old key. */
const ROTATION_MS = 2_000

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))

t.jobs = 4

t.test('prints its version and its help', async t => {
  t.same(await receiverd(['--version']), { status: 0, stdout: `receiverd ${version}\n`, stderr: '' })
  t.same(await run(BUNDLE, ['--version']), { status: 0, stdout: `receiverd ${version}\n`, stderr: '' }, 'by itself')
  const texts: [args: readonly string[], says: readonly string[]][] = [
    [['--help'], ['serve', 'key show', 'key rotate', 'token', '--version', 'Exit status']],
    [['-h'], ['Usage:']],
    [['help'], ['Usage:']],
    [
      ['help', 'serve'],
      ['--listen', 'RECEIVERD_ORIGINS'],
    ],
    [
      ['serve', '--help'],
      ['--listen', '--root', '--state-dir', '127.0.0.1:8080', 'RECEIVERD_ORIGINS'],
    ],
    [
      ['serve', '-h'],
      ['EVENTS', 'STREAMS', 'STREAMS_PER_ADDRESS', 'CONNECTIONS', 'HEARTBEAT_S', 'HOLD_S', 'STALL_S', 'LEEWAY_S'].map(
        name => `RECEIVERD_${name} `,
      ),
    ],
    [
      ['key', '--help'],
      ['show', 'rotate', '--state-dir'],
    ],
    [
      ['key', 'rotate', '--help'],
      ['show', 'rotate', '--state-dir'],
    ],
    [
      ['config', '--help'],
      ['save', 'load', '--with-identity', '--yes', '--partial', '--listen'],
    ],
    [
      ['update', '--help'],
      ['status', 'install', 'discard', 'rollback', '--yes', '--restart', '--allow-older', '--listen'],
    ],
    [
      ['token', '--help'],
      ['--role', '--expires-in', '--subject', '90s, 15m, 8h or 30d'],
    ],
  ]
  for (const [args, says] of texts) {
    const { status, stdout, stderr } = await receiverd(args)
    t.match({ status, stderr }, { status: 0, stderr: '' }, args.join(' '))
    for (const word of says) t.ok(stdout.includes(word), `${args.join(' ')} mentions ${word}`)
    const wide = stdout.split('\n').filter(line => line.length > 80)
    t.same(wide, [], `${args.join(' ')} fits into 80 columns`)
  }
})

t.test('a usage error: one line that names the mistake, and exit 2', async t => {
  const calls: [named: string, args: readonly string[], env?: NodeJS.ProcessEnv][] = [
    ['command', []],
    ['"start"', ['start']],
    ['"now"', ['serve', 'now']],
    ['"start"', ['start', '--help']],
    ['key', ['key']],
    ['"key drop"', ['key', 'drop']],
    ['--prot', ['serve', '--prot', '80']],
    ['-x', ['-x']],
    ['--role', ['serve', '--role', 'admin:r']],
    ['--listen', ['key', 'show', '--listen', '127.0.0.1:1']],
    ['--listen', ['serve', '--listen']],
    ['--help', ['serve', '--help=yes']],
    ['FILE', ['config', 'load']],
    ['terminal', ['config', 'load', '/dev/null']],
    ['terminal', ['config', 'load', '-']],
    ['--listen', ['config', 'save', '--listen', '8080']],
    ['--role', ['token']],
    ['--role', ['token', '--role', 'root:rw']],
    ['--role', ['token', '--role', 'admin']],
    ['--role', ['token', '--role', 'admin:r', '--role', '']],
    ['--expires-in', ['token', '--role', 'admin:r', '--expires-in', '8']],
    ['--expires-in', ['token', '--role', 'admin:r', '--expires-in', '-1h']],
    ['--expires-in', ['token', '--role', 'admin:r', '--expires-in', '1.5h']],
    ['--expires-in', ['token', '--role', 'admin:r', '--expires-in', '0s']],
    ['--expires-in', ['token', '--role', 'admin:r', '--expires-in', '00d']],
    ['--subject', ['token', '--role', 'admin:r', '--subject', '']],
    ['--subject', ['token', '--role', 'admin:r', '--subject', 'x'.repeat(65)]],
    ['--subject', ['token', '--role', 'admin:r', '--subject', 'x'.repeat(4_000)]],
    ['--subject', ['token', '--role', 'admin:r', '--subject', 'two\nlines']],
    ['--listen', ['serve', '--listen', '8080']],
    ['--listen', ['serve', '--listen', '127.0.0.1:65536']],
    ['--listen', ['serve', '--listen', ':80']],
    ['--listen', ['serve', '--listen', '[::1:80']],
    ['--root', ['serve', '--root', 'relative']],
    ['--state-dir', ['key', 'show', '--state-dir', 'relative']],
    ['RECEIVERD_LISTEN', ['serve'], { RECEIVERD_LISTEN: 'here' }],
    ['RECEIVERD_ROOT', ['key', 'show'], { RECEIVERD_ROOT: 'relative' }],
    ['STATE_DIRECTORY', ['key', 'show'], { STATE_DIRECTORY: 'relative' }],
    ['RECEIVERD_ORIGINS', ['serve'], { RECEIVERD_ORIGINS: 'https://panel.example,panel' }],
    ['RECEIVERD_ORIGINS', ['serve'], { RECEIVERD_ORIGINS: 'https://panel.example/' }],
    ['RECEIVERD_PAGE', ['serve'], { RECEIVERD_PAGE: 'no' }],
    ['RECEIVERD_ANNOUNCE', ['serve'], { RECEIVERD_ANNOUNCE: 'no' }],
    ['RECEIVERD_TLS_PORT', ['serve'], { RECEIVERD_TLS_PORT: 'https' }],
    ['RECEIVERD_EVENTS', ['serve'], { RECEIVERD_EVENTS: '0' }],
    ['RECEIVERD_STREAMS', ['serve'], { RECEIVERD_STREAMS: 'many' }],
    ['RECEIVERD_STREAMS_PER_ADDRESS', ['serve'], { RECEIVERD_STREAMS_PER_ADDRESS: '-1' }],
    ['RECEIVERD_CONNECTIONS', ['serve'], { RECEIVERD_CONNECTIONS: '1e9' }],
    ['RECEIVERD_HEARTBEAT_S', ['serve'], { RECEIVERD_HEARTBEAT_S: '0' }],
    ['RECEIVERD_HOLD_S', ['serve'], { RECEIVERD_HOLD_S: '121' }],
    ['RECEIVERD_STALL_S', ['serve'], { RECEIVERD_STALL_S: '1.5' }],
    ['RECEIVERD_LEEWAY_S', ['serve'], { RECEIVERD_LEEWAY_S: ' 1' }],
  ]
  const outputs = await inTurns(calls, ([, args, env]) => receiverd(args, env))
  for (const [at, [named, args, env]] of calls.entries()) {
    const shown = [...Object.entries(env ?? {}).map(([name, value]) => `${name}='${value}'`), ...args].join(' ')
    t.match(outputs[at], { status: 2, stdout: '', stderr: ONE_LINE }, `receiverd ${shown}`)
    t.ok(outputs[at]?.stderr.includes(named), `receiverd ${shown}: ${outputs[at]?.stderr.trim()}`)
  }
})

t.test('key and token work on another root, whether or not a service runs', async t => {
  const root = deviceRoot(t)
  const at = ['--root', root]
  for (const args of [
    ['key', 'show'],
    ['token', '--role', 'admin:r'],
  ])
    t.match(
      await receiverd([...args, ...at]),
      { status: 1, stdout: '', stderr: ONE_LINE },
      `no key yet: ${args.join(' ')}`,
    )

  const made = await receiverd(['key', 'rotate', ...at])
  t.match(made, { status: 0, stdout: KEY, stderr: '' })
  t.same(await receiverd(['key', 'show', ...at]), made)
  t.same(await receiverd(['key', 'show'], { RECEIVERD_ROOT: root }), made, 'the root from its variable')
  t.same(await receiverd(['key', 'show'], { STATE_DIRECTORY: `${root}/var/lib/receiverd:/other` }), made)
  const file = `${root}/var/lib/receiverd/api-key`
  t.equal(statSync(file).mode & 0o777, 0o600)
  chmodSync(file, 0o644)
  const again = await receiverd(['key', 'rotate', ...at])
  t.match(again, { status: 0, stdout: KEY })
  t.not(again.stdout, made.stdout)
  t.equal(statSync(file).mode & 0o777, 0o600)

  writeFileSync(file, 'garbage\n')
  t.match(await receiverd(['key', 'show', ...at]), { status: 1, stdout: '', stderr: ONE_LINE })

  const keyFile = join(root, 'next')
  const rotate = (text: string) => {
    writeFileSync(keyFile, text)
    return receiverd(['key', 'rotate', '--key-file', keyFile, ...at])
  }
  t.match(await rotate('chosen-key.of~room_4-0123\n'), { status: 0, stdout: 'chosen-key.of~room_4-0123\n' })
  t.match(await rotate('chosen-key.of~room_4-0123'), { status: 0 }, 'again')
  t.match(await rotate(again.stdout), { status: 0 }, 'garbage was in between, so it is not remembered')
  const refused: readonly (readonly [text: string, reason: string])[] = [
    ['short\n', 'the key must be 22 to 128 characters of A-Z, a-z, 0-9 and ._~-'],
    [`${'ab'.repeat(12)}\n`, 'the key must have at least 12 different characters'],
    ['chosen-key.of~room_4-0123\n', 'the key must not be a key that this device had before'],
  ]
  for (const [text, reason] of refused)
    t.match(await rotate(text), { status: 1, stdout: '', stderr: `receiverd: --key-file: ${reason}\n` })
  rmSync(keyFile)
  const gone = await receiverd(['key', 'rotate', '--key-file', keyFile, ...at])
  t.match(gone, { status: 1, stderr: `receiverd: --key-file: there is no ${keyFile}\n` })
  const piped = execFileSync(process.execPath, [BUNDLE, 'key', 'rotate', '--key-file', '-', ...at], {
    input: 'piped-key.of~room_4-01234\n',
    encoding: 'utf8',
  })
  t.equal(piped, 'piped-key.of~room_4-01234\n')
})

t.test('a token from the command line grants what it names', async t => {
  const receiver = await startReceiver(t)
  const print = async (...args: string[]) =>
    (await receiverd(['token', '--root', receiver.root, ...args])).stdout.trim()
  t.equal((await receiver.fetchAs(await print('--role', 'admin:r', '--expires-in', '1h'))).status, 200)
  t.equal((await receiver.fetchAs(await print('--role', 'moderator:rw', '--role', 'admin:w'))).status, 403)
  const short = await print('--role', 'admin:r', '--expires-in', '1s')
  const refused = await eventually(async () => {
    const response = await receiver.fetchAs(short)
    return response.status === 401 && response
  })
  t.match(refused.headers.get('www-authenticate'), 'error_description="expired"')
})

t.test('key rotate disconnects the clients of a running service', async t => {
  const receiver = await startReceiver(t)
  const { key: old } = receiver
  const { etag } = await receiver.system()
  const token = (await receiverd(['token', '--root', receiver.root, '--role', 'admin:r'])).stdout.trim()
  const open = async (credential: string) => {
    const headers = { Accept: 'text/event-stream', Authorization: `Bearer ${credential}` }
    const response = await receiver.fetch('/events', { headers })
    t.equal(response.status, 200)
    return response
  }
  const streams = [await open(old), await open(token)]
  const poll = receiver.fetch('/events', { headers: { 'If-None-Match': etag, Prefer: 'wait=60' } })
  await receiver.system()

  const { stdout } = await receiverd(['key', 'rotate', '--root', receiver.root])
  const rotatedAt = performance.now()
  const texts = await Promise.all(streams.map(stream => stream.text()))
  const held = await poll
  t.ok(performance.now() - rotatedAt < ROTATION_MS, `within ${ROTATION_MS} ms: ${performance.now() - rotatedAt} ms`)
  const closed = 'event: events.closed\ndata: {"reason":"key replaced"}\n\n'
  for (const text of texts) t.ok(text.endsWith(`\n\n${closed}`), 'the last event of a stream gives the reason')
  t.equal(held.status, 401, 'the poll is answered')

  t.equal(receiver.key, stdout.trim())
  t.equal((await receiver.fetch('/system')).status, 200, 'the new key is in force')
  t.equal((await receiver.fetchAs(old)).status, 401)
  t.equal((await receiver.fetchAs(token)).status, 401)
  t.notOk(
    receiver.log.some(line => [old, token, receiver.key].some(credential => line.includes(credential))),
    'no credential in the log',
  )
})

t.test('settings go from one device to another in a file', async t => {
  const [one, other] = [await startReceiver(t), await startReceiver(t)]
  const config = (receiver: Receiver, ...args: string[]) =>
    receiverd(['config', ...args, '--root', receiver.root, '--listen', new URL(receiver.url).host])
  await one.patch({ deviceName: 'One', locale: 'C.UTF-8', ntp: { servers: ['a.example'] } })
  const { status, stdout, stderr } = await config(one, 'save')
  t.same({ status, stderr }, { status: 0, stderr: '' })
  t.match(JSON.parse(stdout), { format: 'receiverd-settings', version: 1, settings: { locale: 'C.UTF-8' } })
  t.notMatch(stdout, /One|eth0/)
  const file = join(one.root, 'settings.json')
  t.same(await config(one, 'save', file, '--with-identity'), { status: 0, stdout: '', stderr: '' })
  t.match(JSON.parse(readFileSync(file, 'utf8')), { settings: { deviceName: 'One', network: { eth0: {} } } })

  t.match(await config(other, 'load', file), { status: 2, stdout: '', stderr: ONE_LINE }, 'nobody can be asked')
  const loaded = await config(other, 'load', '--yes', file)
  t.same({ status: loaded.status, stderr: loaded.stderr }, { status: 0, stderr: '' })
  t.match(loaded.stdout, /\/deviceName: "[^"]+" → "One"\n[\s\S]*Loaded\.\n$/)
  t.match((await other.system()).value, { deviceName: 'One', locale: 'C.UTF-8', ntp: { servers: ['a.example'] } })
  t.ok(other.log.some(line => /127\.0\.0\.1 \(a token of receiverd config\) changed .*deviceName/.test(line)))
  t.same(await config(other, 'load', '--yes', file), { status: 0, stdout: 'No setting would change.\n', stderr: '' })

  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace('"settings": {', '"settings": { "later": 1, "timezone": "UTC",'),
  )
  t.match(await config(other, 'load', '--yes', file), {
    status: 1,
    stdout: '/later: unknown property',
    stderr: ONE_LINE,
  })
  writeFileSync(file, readFileSync(file, 'utf8').replace(/"timezone": "Eur[^,]*,/, ''))
  t.match(await config(other, 'load', '--yes', '--partial', file), { status: 0, stdout: 'Loaded.' })
  t.equal((await other.system()).value.timezone, 'UTC')

  t.match(await config(other, 'load', '--yes', join(one.root, 'gone')), {
    status: 1,
    stderr: /config load: there is no /,
  })
  await other.stop()
  t.match(await config(other, 'save'), {
    status: 1,
    stdout: '',
    stderr: /^receiverd: no service answers at 127\.0\.0\.1:/,
  })
})

t.test('at a terminal, settings are loaded once a person says so', { skip: needs('/usr/bin/script') }, async t => {
  const receiver = await startReceiver(t)
  const file = join(receiver.root, 'settings.json')
  const settings = { hostname: 'room-4' }
  writeFileSync(file, JSON.stringify({ format: 'receiverd-settings', version: 1, settings }))
  const listen = new URL(receiver.url).host
  /** Gives these answers, each when it is asked for. */
  const load = async (...answers: readonly string[]) => {
    const command = `${process.execPath} ${BUNDLE} config load ${file} --root ${receiver.root} --listen ${listen}`
    const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'])
    let shown = ''
    child.stdout.setEncoding('utf8').on('data', chunk => {
      shown += chunk
      if (/\[y\/N\] $/.test(shown)) child.stdin.write(`${answers[shown.split('[y/N]').length - 2] ?? 'n'}\n`)
    })
    const [status] = await once(child, 'close')
    return { status, shown }
  }
  const { status, shown } = await load('n')
  t.equal(status, 1)
  t.match(shown, /\/hostname: "receiver" → "room-4"[\s\S]*Load these settings\?[\s\S]*nothing was loaded/)
  t.match(await load('y', ''), { status: 1, shown: /Keep them\?[\s\S]*the settings are as before/ })
  t.equal((await receiver.system()).value.hostname, 'receiver')
  t.match(await load('y', 'yes'), { status: 0, shown: /Keep them\?[\s\S]*Loaded\./ })
  t.equal((await receiver.system()).value.hostname, 'room-4')
})

t.test('a bundle that is not there: one line, exit 1, also without a terminal', async t => {
  const stderr = 'receiverd: update install: there is no /nothere\n'
  t.same(await receiverd(['update', 'install', '/nothere']), { status: 1, stdout: '', stderr })
})

t.test('a port that is in use: one line, exit 1', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const listen = `127.0.0.1:${address.port}`
  const root = deviceRoot(t)
  await receiverd(['key', 'rotate', '--root', root])
  const { status, stdout, stderr } = await receiverd(['serve', '--root', root, '--listen', listen])
  t.match({ status, stdout }, { status: 1, stdout: '' })
  t.match(stderr.replace(/^<[46]>.*\n/gm, ''), ONE_LINE, 'one line, after those of the log')
  t.match(stderr, `cannot listen on ${listen}: address already in use (EADDRINUSE); `)
})

t.test('whatever a token is made of, the service accepts it', async t => {
  const receiver = await startReceiver(t)
  const requests: (readonly string[])[] = [
    ['--subject', 'x'.repeat(64)],
    ['--subject', '🎥'.repeat(64)],
    ['--subject', '"\\'.repeat(32)],
    Array.from({ length: 1_000 }, () => ['--role', 'moderator:rw']).flat(),
    ['--expires-in', '999999999d'],
  ]
  for (const args of requests) {
    const { status, stdout } = await receiverd(['token', '--root', receiver.root, '--role', 'admin:r', ...args])
    t.equal(status, 0)
    t.equal((await receiver.fetchAs(stdout.trim())).status, 200, args.slice(0, 2).join(' ').slice(0, 40))
  }
})

t.test('a misspelled variable is not ignored in silence', async t => {
  const text = 'RECEIVERD_STREAM is not an option and has no effect; did you mean RECEIVERD_STREAMS?'
  const env = { RECEIVERD_STREAM: 'secret' }
  const receiver = await startReceiver(t, { env })
  t.ok(receiver.log.includes(`<4>${text}`), 'serve logs a warning')
  t.notMatch(receiver.log.join('\n'), 'secret')
  t.same(await receiverd(['key', 'show', '--root', receiver.root], env), {
    status: 0,
    stdout: `${receiver.key}\n`,
    stderr: `receiverd: warning: ${text}\n`,
  })
})

t.test('output that cannot be printed is a failure', async t => {
  const stateDir = join(deviceRoot(t), 'state')
  mkdirSync(stateDir)
  const full = openSync('/dev/full', 'w')
  const { status, stderr } = spawnSync(process.execPath, [BUNDLE, 'key', 'rotate', '--state-dir', stateDir], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  })
  t.match({ status, stderr }, { status: 1, stderr: 'receiverd: cannot write to stdout: no space left on device' })
})

/** Runs items that take a process each, a few at a time. */
async function inTurns<T>(items: readonly T[], act: (item: T) => Promise<Output>): Promise<readonly Output[]> {
  const outputs: Output[] = []
  for (let at = 0; at < items.length; at += 4) outputs.push(...(await Promise.all(items.slice(at, at + 4).map(act))))
  return outputs
}
