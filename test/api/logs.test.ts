import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { HalError } from '../../hal/errors.ts'
import type { ReadLines } from '../../hal/os/command.ts'
import { MAX_LOG_BYTES } from '../../src/limits.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { FakeMonitors } from '../support/fakes/monitors.ts'
import { temporaryFolder } from '../support/folder.ts'
import { startTestService, type TestService } from '../support/service.ts'

interface LogRecord {
  readonly time: string
  readonly unit: string
  readonly priority: number
  readonly message: string
}

const AT = Date.parse('2026-11-21T20:00:00.000Z')

/** A record as journalctl prints it, `n` seconds after the first. */
const record = (n: number, fields: object): string =>
  JSON.stringify({
    __REALTIME_TIMESTAMP: `${AT + n * 1000}000`,
    _SYSTEMD_UNIT: 'receiverd.service',
    PRIORITY: '6',
    MESSAGE: 'Hello',
    ...fields,
  })

/** A running device with a journal, where journalctl prints these lines. */
async function startWithJournal(t: Test, lines: readonly string[], readLines?: ReadLines) {
  const root = deviceRoot(t)
  mkdirSync(join(root, 'run/log/journal'), { recursive: true })
  const commands: string[] = []
  const print: ReadLines = async (argv, take) => {
    commands.push(argv.join(' '))
    lines.every(line => take(line))
  }
  const { monitor } = new FakeMonitors()
  const run = async () => ''
  const service = await startTestService(t, { root, running: true, run, monitor, readLines: readLines ?? print })
  return { service, commands }
}

const read = async (service: TestService, query = '') =>
  (await (await service.fetch(`/logs${query}`)).json()) as readonly LogRecord[]
const readText = async (service: TestService, query = '') =>
  (await service.fetch(`/logs${query}`, { headers: { Accept: 'text/plain' } })).text()

t.test('the newest record is the last', async t => {
  const { service, commands } = await startWithJournal(t, [
    record(2, { MESSAGE: 'weston 14', UNIT: 'weston.service', _SYSTEMD_UNIT: 'init.scope', PRIORITY: '4' }),
    record(1, { MESSAGE: 'Two' }),
    record(0, { MESSAGE: 'One', PRIORITY: undefined }),
  ])
  t.same(await read(service), [
    { time: '2026-11-21T20:00:00.000Z', unit: 'receiverd.service', priority: 6, message: 'One' },
    { time: '2026-11-21T20:00:01.000Z', unit: 'receiverd.service', priority: 6, message: 'Two' },
    { time: '2026-11-21T20:00:02.000Z', unit: 'weston.service', priority: 4, message: 'weston 14' },
  ])
  t.equal(
    await readText(service),
    '2026-11-21T20:00:00.000Z receiverd.service info: One\n' +
      '2026-11-21T20:00:01.000Z receiverd.service info: Two\n' +
      '2026-11-21T20:00:02.000Z weston.service warning: weston 14\n',
  )
  const [command = ''] = commands
  t.match(
    command,
    /^journalctl --output=json .*--reverse .*--lines=200 --unit=receiverd.service --unit=uxplay.service (?:--unit=.* )?--unit=weston.service$/,
  )
  t.notMatch(command, '--all')
  await read(service, '?lines=2000&unit=uxplay.service&priority=0')
  t.match(commands.at(-1), /--lines=2000 --unit=uxplay.service --priority=0$/)
})

t.test('messages are text from strangers', async t => {
  const cases: readonly (readonly [fields: object, message: string, line?: string])[] = [
    [{ MESSAGE: [255, 98, 97, 100] }, '\u{fffd}bad'],
    [{ MESSAGE: [...Buffer.from('\x1b[31;1mred\x1b[0m')] }, 'red'],
    [{ MESSAGE: [...Buffer.from('\x1b]0;title\x07')] }, '\u{fffd}]0;title\u{fffd}'],
    [{ MESSAGE: null }, '(a message of over 4 KiB)'],
    [{ MESSAGE: undefined }, ''],
    [{ MESSAGE: ['one', 'two'] }, 'one\ntwo', 'one two'],
    [{ MESSAGE: 'Error\r\n\tat line 1\n' }, 'Error\n at line 1', 'Error  at line 1'],
    [{ MESSAGE: 'a\u202eb\u2028c\u0000' }, 'a\u{fffd}b\u{fffd}c\u{fffd}'],
    [{ MESSAGE: '<img onerror="x"> \u{1f3a5}' }, '<img onerror="x"> \u{1f3a5}'],
    [{ MESSAGE: {} }, '(a message of over 4 KiB)'],
  ]
  const { service } = await startWithJournal(t, cases.map(([fields]) => record(0, fields)).reverse())
  t.same(
    (await read(service)).map(({ message }) => message),
    cases.map(([, message]) => message),
  )
  t.same(
    (await readText(service)).split('\n').map(line => line.replace(/^.*? info: /, '')),
    [...cases.map(([, message, line]) => line ?? message), ''],
  )
})

t.test('a PIN of AirPlay is masked, in every form', async t => {
  const messages = ['Y88b  d88P   Y88b  d88P', '*** CLIENT MUST NOW ENTER PIN = "0817" AS AIRPLAY PASSWORD']
  const { service } = await startWithJournal(
    t,
    messages.toReversed().map(MESSAGE => record(0, { MESSAGE, _SYSTEMD_UNIT: 'uxplay.service' })),
  )
  const masked = ['****', '*** CLIENT MUST NOW ENTER PIN = "****" AS AIRPLAY PASSWORD']
  t.same(
    (await read(service)).map(({ message }) => message),
    masked,
  )
  t.same(
    (await readText(service))
      .trim()
      .split('\n')
      .map(line => line.replace(/^.*? info: /, '')),
    masked,
  )
})

t.test('a unit cannot log in the name of another', async t => {
  const { service } = await startWithJournal(t, [
    record(2, { _SYSTEMD_UNIT: 'init.scope', UNIT: 'uxplay.service' }),
    record(1, { _SYSTEMD_UNIT: 'uxplay.service', OBJECT_SYSTEMD_UNIT: 'receiverd.service' }),
    record(0, { _SYSTEMD_UNIT: 'uxplay.service', UNIT: 'receiverd.service notice: a forged line\n' }),
  ])
  t.same(
    (await read(service)).map(({ unit }) => unit),
    ['uxplay.service', 'uxplay.service', 'uxplay.service'],
  )
  t.equal((await readText(service)).split('\n').length, 4, 'one line for each record')
})

t.test('records that make no sense are left out', async t => {
  const { service } = await startWithJournal(t, [
    ...['', '{', 'null', '{}', '[1]', '{"__REALTIME_TIMESTAMP":"18446744073709551615"}'],
    record(0, { PRIORITY: 'x' }),
  ])
  t.match(await read(service), [{ priority: 6, message: 'Hello' }])
})

t.test('a long answer loses its oldest records', async t => {
  const lines = Array.from({ length: 2_000 }, (_, n) => record(-n, { MESSAGE: `${n} ${'"'.repeat(2_000)}` }))
  let taken = 0
  const { service } = await startWithJournal(t, [], async (_, take) => {
    lines.every(line => ++taken && take(line))
  })
  for (const Accept of ['application/json', 'text/plain']) {
    taken = 0
    const body = await (await service.fetch('/logs?lines=2000', { headers: { Accept } })).text()
    t.ok(body.length > MAX_LOG_BYTES - 5_000 && body.length <= MAX_LOG_BYTES, `${body.length}`)
    t.match(body.slice(-5_000), /(message":"|: )0 /)
    t.ok(taken < 600, 'no more is read than is answered')
  }
})

t.test('the query is checked', async t => {
  const { service, commands } = await startWithJournal(t, [])
  const bad = [
    'lines=0',
    'lines=2001',
    'lines=',
    'lines=1e3',
    'lines=-1',
    'lines=1&lines=2',
    'priority=8',
    'priority=err',
  ]
  for (const query of [...bad, 'unit=', 'unit=ssh.service', 'unit=receiverd', 'unit=--file', 'unit=*'])
    t.equal((await service.fetch(`/logs?${query}`)).status, 400, query)
  t.same(commands, [])
  t.match(await (await service.fetch('/logs?unit=x')).json(), {
    detail: /receiverd.service, uxplay.service, (?:.*, )?weston.service/,
  })
  for (const query of ['lines=1', 'priority=7&lines=2000&unit=weston.service'])
    t.same(await read(service, `?${query}`), [], query)
})

t.test('where there is no journal: 409', async t => {
  const why = async (service: TestService) => {
    const answer = await service.fetch('/logs')
    t.equal(answer.status, 409)
    return ((await answer.json()) as { detail: string }).detail
  }
  t.equal(await why(await startTestService(t)), 'The log cannot be read: this is not the running system.')
  const { monitor } = new FakeMonitors()
  const bare = await startTestService(t, { running: true, run: async () => '', monitor })
  t.equal(await why(bare), 'The log cannot be read: no journal is kept.')
  const { service } = await startWithJournal(t, [], async () => {
    throw new HalError('COMMAND_FAILED', 'journalctl is not installed')
  })
  t.equal(await why(service), 'The log cannot be read: journalctl is not installed.')
})

t.test('one request reads at a time, and few wait', async t => {
  let reading = 0
  const waiting: (() => void)[] = []
  const { service } = await startWithJournal(t, [], async () => {
    t.equal(++reading, 1)
    await new Promise<void>(resolve => waiting.push(resolve))
    reading--
  })
  const statuses: number[] = []
  const asked = Array.from({ length: 10 }, async () => statuses.push((await service.fetch('/logs')).status))
  const go = setInterval(() => {
    if (statuses.length >= 6) waiting.shift()?.()
  }, 5)
  await Promise.all(asked)
  clearInterval(go)
  t.same(statuses, [...Array(6).fill(503), ...Array(4).fill(200)])
})

t.test('clients that do not read their answers hold a few of them in memory, and not one each', async t => {
  const lines = Array.from({ length: 600 }, (_, n) => record(-n, { MESSAGE: 'x'.repeat(2_000) }))
  const { service, commands } = await startWithJournal(t, lines)
  const sockets: Socket[] = []
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  const ask = `GET /api/v1/logs?lines=2000 HTTP/1.1\r\nHost: device\r\nAuthorization: Bearer ${service.key}\r\n\r\n`
  const isQuiet = async () => {
    const before = commands.length
    for (let turn = 0; turn < 10; turn++) await sleep(10)
    return commands.length === before
  }
  const status = async () => (await service.fetch('/logs?lines=1')).status
  // The kernel takes the first few of the answers on each connection.
  while (sockets.length < 12 && (await status()) === 200) {
    sockets.push(connect(service.port, '127.0.0.1').pause())
    sockets.at(-1)?.write(ask.repeat(20))
    await eventually(isQuiet)
  }
  t.equal(await status(), 503)
  t.ok(sockets.length >= 4, `after ${sockets.length} clients`)
  for (const socket of sockets.slice(1)) socket.destroy()
  await eventually(async () => (await status()) === 200)
})

t.test('a key that is replaced while a request waits', async t => {
  let finish: () => void = () => undefined
  const finished = new Promise<void>(resolve => {
    finish = resolve
  })
  let reading = 0
  const { service } = await startWithJournal(t, [], () => {
    reading++
    return finished
  })
  const { key } = service
  const statuses: number[] = []
  const asked = Array.from({ length: 5 }, async () => statuses.push((await service.fetchAs(key, '/logs')).status))
  await eventually(() => statuses.length === 1)
  t.same(statuses, [503], 'the others wait')
  await service.fetch('/api-key', { method: 'POST' })
  finish()
  await Promise.all(asked)
  t.same(statuses, [503, 200, 401, 401, 401])
  t.equal(reading, 1)
})

t.test('a real process is read, and ended when that is enough', async t => {
  const bin = temporaryFolder(t)
  const script = `#!/bin/sh\nwhile :; do echo '${record(0, { MESSAGE: 'again '.repeat(500) })}'; done\n`
  writeFileSync(join(bin, 'journalctl'), script)
  chmodSync(join(bin, 'journalctl'), 0o755)
  const { PATH } = process.env
  process.env.PATH = `${bin}:${PATH}`
  t.teardown(() => {
    process.env.PATH = PATH
  })
  const root = deviceRoot(t)
  mkdirSync(join(root, 'var/log/journal'), { recursive: true })
  const { monitor } = new FakeMonitors()
  const service = await startTestService(t, { root, running: true, run: async () => '', monitor })
  t.match(await read(service), Array(300).fill({ message: /^again/ }))
})
