/** Messages to systemd, received on a real datagram socket. Node has none (nodejs/node#29339), so Python listens. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { HalError } from '../hal/errors.ts'
import { type Run, runCommand } from '../hal/os/command.ts'
import { tellSupervisor } from '../src/supervisor.ts'
import { eventually } from './support/eventually.ts'
import { temporaryFolder } from './support/folder.ts'
import { needs } from './support/needs.ts'

const PYTHON = '/usr/bin/python3'
/** Prints each datagram as a line of JSON. */
const LISTENER = `
import json, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
print('[]', flush=True)
while True:
    print(json.dumps(listener.recv(65536).decode().splitlines()), flush=True)
`

const skip = needs('python3', 'systemd-notify')

/** A socket that is bound, and the assignments of each message that arrived at it. */
async function notifySocket(t: Test) {
  const path = join(temporaryFolder(t), 'notify')
  const listener = spawn(PYTHON, ['-c', LISTENER, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => listener.kill())
  let output = ''
  listener.stdout.setEncoding('utf8').on('data', chunk => {
    output += chunk
  })
  await eventually(async () => output !== '')
  // systemd-notify ends with a barrier, to learn that its message has arrived (sd_notify_barrier(3)).
  const messages = () =>
    output
      .split('\n')
      .slice(1, -1)
      .map((line): readonly string[] => JSON.parse(line).sort())
      .filter(lines => lines[0] !== 'BARRIER=1')
  return { path, messages }
}

t.test('ready, then alive twice per watchdog period, each with the status', { skip }, async t => {
  const { path, messages } = await notifySocket(t)
  const began = performance.now()
  let asked = 0
  const log: string[] = []
  await tellSupervisor(
    {
      env: { NOTIFY_SOCKET: path, WATCHDOG_USEC: '1000000' },
      run: runCommand,
      log: (level, message) => log.push(`${level}: ${message}`),
    },
    () => `http://[::]:8080, ${asked++} streams and held polls`,
  )
  await eventually(async () => messages().length >= 3)
  const tookMs = performance.now() - began
  t.same(messages().slice(0, 3), [
    ['READY=1', 'STATUS=http://[::]:8080, 0 streams and held polls'],
    ['STATUS=http://[::]:8080, 1 streams and held polls', 'WATCHDOG=1'],
    ['STATUS=http://[::]:8080, 2 streams and held polls', 'WATCHDOG=1'],
  ])
  t.ok(tookMs > 900, `two half periods of 500 ms: ${tookMs.toFixed(0)} ms`)
  t.same(log, [])
})

t.test('without a watchdog, ready and nothing else', { skip }, async t => {
  const { path, messages } = await notifySocket(t)
  await tellSupervisor({ env: { NOTIFY_SOCKET: path }, run: runCommand, log: () => undefined }, () => 'up')
  await eventually(async () => messages().length > 0)
  t.same(messages(), [['READY=1', 'STATUS=up']])
})

t.test('a socket that nobody listens on is logged, and ends nothing', { skip }, async t => {
  const log: string[] = []
  const env = { NOTIFY_SOCKET: '/nonexistent/notify' }
  const record = (level: string, message: string) => log.push(`${level}: ${message}`)
  await tellSupervisor({ env, run: runCommand, log: record, retryMs: 1 }, () => 'up')
  t.same(log, ['error: cannot notify systemd: systemd-notify failed with status 1'])
})

t.test('while one message is on its way, no other is sent', async t => {
  let [running, most, messages] = [0, 0, 0]
  const run: Run = async () => {
    most = Math.max(most, ++running)
    await sleep(messages++ === 0 ? 0 : 100)
    running--
    return ''
  }
  await tellSupervisor({ env: { NOTIFY_SOCKET: '/s', WATCHDOG_USEC: '20000' }, run, log: () => undefined }, () => 'up')
  await eventually(() => messages > 3)
  t.equal(most, 1)
})

t.test('without systemd, no command is run', async t => {
  const run = async () => t.fail('a command was run') as never
  await tellSupervisor({ env: { WATCHDOG_USEC: '1000' }, run, log: () => undefined }, () => 'up')
})

t.test('a message that was lost is sent again', { skip }, async t => {
  const { path, messages } = await notifySocket(t)
  const log: string[] = []
  let lost = 0
  const run: Run = async (argv, env) => {
    if (lost++ < 2) throw new HalError('COMMAND_FAILED', 'systemd-notify failed with status 1')
    return runCommand(argv, env)
  }
  const record = (level: string, message: string) => log.push(`${level}: ${message}`)
  await tellSupervisor({ env: { NOTIFY_SOCKET: path }, run, log: record, retryMs: 1 }, () => 'up')
  await eventually(async () => messages().length > 0)
  t.same(messages(), [['READY=1', 'STATUS=up']])
  t.same(log, [])
})
