/** `make run`, as seen by someone who has just cloned the repository. It runs in a copy, so that builds do not interfere. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { DEADLINE_MS, REPOSITORY, run, until } from './support.ts'

const ENV = { PATH: process.env.PATH, RECEIVERD_LISTEN: '127.0.0.1:0' }
const COPIED = ['Makefile', 'package.json', 'build/run.ts', 'build/out/receiverd.cjs', 'test/fixtures/receiver']
/** The copy has no packages of its own. */
const COMMAND = [process.execPath, '--import', import.meta.resolve('tsx'), 'build/run.ts'] as const
const PYTHON = '/usr/bin/python3'

/** What a person does at a terminal: starts it, waits for its output, and presses Ctrl-C. Prints its exit status. */
const AT_A_TERMINAL = `
import os, pty, select, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp('make', ['make', '-o', 'build', 'run', 'TS=' + sys.argv[2]])
shown, deadline, pressed = b'', time.monotonic() + float(sys.argv[1]), False
while time.monotonic() < deadline:
    if not select.select([terminal], [], [], 0.1)[0]:
        continue
    try:
        chunk = os.read(terminal, 65536)
    except OSError:
        break
    if not chunk:
        break
    shown += chunk
    if not pressed and b'Change the name' in shown and shown.endswith(b'/api/v1/system\\r\\n\\r\\n'):
        pressed = True
        os.write(terminal, b'\\x03')
else:
    os.kill(pid, 9)
sys.stdout.write(shown.decode())
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print('pressed' if pressed else 'never ready', status)
`

/** A copy of what the recipe needs, gone after the test. */
function copyOfRepository(t: Test): string {
  const copy = mkdtempSync(join(tmpdir(), 'receiverd-run-'))
  t.teardown(() => rmSync(copy, { recursive: true, force: true }))
  for (const name of COPIED)
    cpSync(join(REPOSITORY, name), join(copy, name), { recursive: true, verbatimSymlinks: true })
  return copy
}

/** Every file outside build/out, with its mode, size and time of modification. */
function filesOf(copy: string): readonly string[] {
  const names = readdirSync(copy, { recursive: true, encoding: 'utf8' })
  return names
    .filter(name => !name.startsWith('build/out'))
    .map(name => {
      const { size, mtimeMs, mode } = statSync(join(copy, name), { throwIfNoEntry: false }) ?? {}
      return `${name} ${mode} ${size} ${mtimeMs}`
    })
    .sort()
}

/** Starts what `make run` starts; it is gone after the test. */
function startRunner(t: Test, copy: string, env = ENV): ChildProcess {
  const [program, ...args] = COMMAND
  const runner = spawn(program, args, {
    cwd: copy,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => runner.kill())
  return runner
}

function output(child: ChildProcess): () => string {
  let text = ''
  child.stdout?.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  return () => text
}

/** The three commands that it prints: to read, follow and change the device. */
async function commandsIn(shown: () => string): Promise<readonly [string, string, string]> {
  const [read = '', follow = '', change = ''] = await until('it prints how to talk to it', () => {
    const lines = shown().match(/^ {2}curl .*\n/gm)
    return lines?.length === 3 && lines.map(line => line.trim())
  })
  return [read, follow, change]
}

t.test('the three commands that it prints do what they are for', async t => {
  const copy = copyOfRepository(t)
  const before = filesOf(copy)
  const runner = startRunner(t, copy)
  const shown = output(runner)
  const [read, follow, change] = await commandsIn(shown)

  const system = await run('sh', ['-c', read.replace('curl', 'curl -sS')])
  t.match(JSON.parse(system.stdout), { deviceName: 'Meeting Room 4', firmware: { name: 'Receiver OS' } })

  const follower = spawn('sh', ['-c', `exec ${follow.replace('curl', 'curl -sS')}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => follower.kill())
  const followed = output(follower)
  await until('the stream opens', () => followed().startsWith('retry: '))

  const changed = await run('sh', ['-c', change.replace('curl', 'curl -sS')])
  t.match(JSON.parse(changed.stdout), { deviceName: 'Lobby' })
  await until('the change arrives', () =>
    followed().includes('event: system.changed\ndata: {"deviceName":"Lobby"}\n\n'),
  )

  t.match(readFileSync(join(copy, 'build/out/device/etc/machine-info'), 'utf8'), /^PRETTY_HOSTNAME="?Lobby"?$/m)
  t.same(filesOf(copy), before, 'nothing outside build/out has changed')

  const ended = once(follower, 'exit')
  const exited = once(runner, 'exit', { signal: AbortSignal.timeout(DEADLINE_MS) })
  runner.kill('SIGINT')
  t.same(await exited, [0, null], 'SIGINT ends it without an error')
  t.same(await ended, [0, null], 'and the stream with it')
})

t.test('each run begins with a new device', async t => {
  const copy = copyOfRepository(t)
  for (const name of ['first', 'second']) {
    const runner = startRunner(t, copy)
    const shown = output(runner)
    const [read, , change] = await commandsIn(shown)
    const system = await run('sh', ['-c', read.replace('curl', 'curl -sS')])
    t.match(JSON.parse(system.stdout), { deviceName: 'Meeting Room 4' }, name)
    await run('sh', ['-c', change.replace('curl', 'curl -sS')])
    const exited = once(runner, 'exit', { signal: AbortSignal.timeout(DEADLINE_MS) })
    runner.kill('SIGTERM')
    t.same(await exited, [0, null])
  }
})

t.test('while it runs, a second run is refused, and leaves the device of the first alone', async t => {
  const copy = copyOfRepository(t)
  const first = startRunner(t, copy)
  const [read] = await commandsIn(output(first))
  const second = await run('sh', ['-c', `cd '${copy}' && exec "$@" 2>&1`, 'sh', ...COMMAND], ENV)
  t.same(second, {
    status: 1,
    stdout: 'make run: it is already running, in another terminal; press Ctrl-C there first\n',
    stderr: '',
  })
  const system = await run('sh', ['-c', read.replace('curl', 'curl -sS')])
  t.match(JSON.parse(system.stdout), { deviceName: 'Meeting Room 4' })
  t.match(readFileSync(join(copy, 'build/out/device/etc/machine-info'), 'utf8'), 'Meeting Room 4')
})

t.test('a port that is in use: how to choose another', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  const runner = startRunner(t, copyOfRepository(t), { ...ENV, RECEIVERD_LISTEN: `127.0.0.1:${port}` })
  const shown = output(runner)
  t.same(await once(runner, 'close'), [1, null])
  t.match(shown(), `receiverd: cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)`)
  t.match(shown(), /^For another port: RECEIVERD_LISTEN=127\.0\.0\.1:8081 make run$/m)
})

const hasPython = await run(PYTHON, ['-c', 'import pty']).then(
  ({ status }) => status === 0,
  () => false,
)
t.test(
  'Ctrl-C at a terminal ends it without an error',
  { skip: hasPython ? false : 'Python makes the terminal: apt-get install python3' },
  async t => {
    const copy = copyOfRepository(t)
    const program = `cd '${copy}' && exec ${PYTHON} -c "$PROGRAM" ${DEADLINE_MS / 2000} "$RUNNER"`
    const { stdout } = await run('sh', ['-c', program], {
      ...ENV,
      PROGRAM: AT_A_TERMINAL,
      RUNNER: COMMAND.slice(0, -1).join(' '),
    })
    t.match(stdout, /^pressed 0$/m)
    t.notMatch(stdout, /\*\*\*/, 'make reports no error')
  },
)
