/** `make run`, on a copy of the repository, so that other tests may build meanwhile. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, cpSync, lstatSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { run } from '../support/run.ts'

const ENV = { PATH: process.env.PATH, RECEIVERD_LISTEN: '127.0.0.1:0' }
const COPIED = ['Makefile', 'package.json', 'package-lock.json', 'src', 'hal', 'test/fixtures/receiver'].concat([
  ...['build/build-time.ts', 'build/bundle-file.ts', 'build/bundle.ts', 'build/esbuild-options.ts', 'build/page.ts'],
  ...['build/run.ts', 'build/third-party.ts', 'build/package/install.mk'],
  ...['build/out/receiverd.cjs', 'build/out/receiverd.cjs.sources'],
])
const PACKAGES = 'node_modules'
const RUN = ['--import', 'tsx', 'build/run.ts']
const PYTHON = '/usr/bin/python3'

/** A person at a terminal: starts it, waits for its output, and presses Ctrl-C. Prints its exit status. */
const AT_A_TERMINAL = `
import os, pty, select, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp('make', ['make', '-o', 'build', 'run'])
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
    if not pressed and b'As a moderator' in shown and shown.endswith(b'/api/v1/sessions/$ID\\r\\n\\r\\n'):
        pressed = True
        os.write(terminal, b'\\x03')
else:
    os.kill(pid, 9)
sys.stdout.write(shown.decode())
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print('pressed' if pressed else 'never ready', status)
`

/** A copy of the recipe's files, removed after the test. */
function copyOfRepository(t: Test): string {
  const copy = temporaryFolder(t)
  const filter = (path: string) => basename(path) !== PACKAGES
  for (const name of COPIED)
    cpSync(join(REPOSITORY, name), join(copy, name), { recursive: true, verbatimSymlinks: true, filter })
  symlinkSync(join(REPOSITORY, PACKAGES), join(copy, PACKAGES))
  return copy
}

/** Every file outside build/out with its mode, size and modification time. */
function filesOf(copy: string): readonly string[] {
  // By their entries: without types, links are followed.
  return readdirSync(copy, { recursive: true, withFileTypes: true })
    .map(({ parentPath, name }) => join(parentPath, name).slice(copy.length + 1))
    .filter(name => !name.startsWith('build/out'))
    .map(name => {
      const { size, mtimeMs, mode } = lstatSync(join(copy, name), { throwIfNoEntry: false }) ?? {}
      return `${name} ${mode} ${size} ${mtimeMs}`
    })
    .sort()
}

function output(child: ChildProcess): () => string {
  let text = ''
  child.stdout?.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  return () => text
}

/** `make run` in a copy, without make, and its output. */
function startRun(t: Test, copy: string, env = ENV) {
  const runner = spawn(process.execPath, RUN, { cwd: copy, env, stdio: ['ignore', 'pipe', 'inherit'] })
  // Killed, it would leave its service behind.
  t.teardown(() => runner.kill())
  return { runner, shown: output(runner) }
}

/** The commands that it prints: to make a token, to read, follow and change the device, to play one that mirrors, and to moderate it. */
async function commandsIn(shown: () => string) {
  const lines = await eventually(() => {
    const lines = shown().match(/^ {2}(?!page|address|API key)\S.*\n/gm)
    return lines?.length === 10 && lines.map(line => line.trim())
  })
  const [token = '', read = '', follow = '', change = '', ask = '', play = '', ...moderate] = lines
  return { token, read, follow, change, ask, play, moderate }
}

t.test('the commands that it prints do what they say', async t => {
  const copy = copyOfRepository(t)
  const before = filesOf(copy)
  const { runner, shown } = startRun(t, copy)
  const { token, read, follow, change, ask, play, moderate } = await commandsIn(shown)

  const system = await run('sh', ['-c', read.replace('curl', 'curl -sS')])
  t.match(JSON.parse(system.stdout), { deviceName: 'Meeting Room 4', firmware: { name: 'Receiver OS' } })

  const made = await run('sh', ['-c', `cd '${copy}' && ${token}`])
  t.match(made, { status: 0, stderr: '' })
  const asModerator = (command: string) =>
    run('sh', ['-c', command.replace(/Bearer [^']*/, `Bearer ${made.stdout.trim()}`).replace('curl', 'curl -sS')])
  t.same(JSON.parse((await asModerator(moderate[0] ?? '')).stdout), { sessions: [] }, 'the token of a moderator')
  t.match(JSON.parse((await asModerator(read)).stdout), { status: 403 })

  const follower = spawn('sh', ['-c', `exec ${follow.replace('curl', 'curl -sS')}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => follower.kill())
  const followed = output(follower)
  await eventually(() => followed().startsWith('retry: '))

  const changed = await run('sh', ['-c', change.replace('curl', 'curl -sS')])
  t.match(JSON.parse(changed.stdout), { deviceName: 'Lobby' })
  await eventually(() => followed().includes('event: system.changed\ndata: {"deviceName":"Lobby"}\n\n'))

  await run('sh', ['-c', ask])
  const player = spawn('sh', ['-c', `exec ${play}`], { cwd: copy, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => player.kill())
  const played = output(player)
  const over = once(player, 'exit')
  await eventually(async () => (await run('sh', ['-c', moderate[0] ?? ''])).stdout.includes('"state":"pending"'))
  const [list, setId, admit = '', end = ''] = moderate
  t.match((await run('sh', ['-c', `${list}\n${setId}\n${admit}`])).stdout, '"state":"active"')
  await eventually(() => played().split('\n').length > 2)
  await run('sh', ['-c', `${setId}\n${end}`])
  t.same(await over, [143, null], 'ended')

  t.match(readFileSync(join(copy, 'build/out/device/etc/machine-info'), 'utf8'), /^PRETTY_HOSTNAME="?Lobby"?$/m)
  t.same(filesOf(copy), before, 'nothing outside build/out has changed')

  const ended = once(follower, 'exit')
  const exited = once(runner, 'exit', { signal: AbortSignal.timeout(DEADLINE_MS) })
  runner.kill('SIGINT')
  t.same(await exited, [0, null], 'SIGINT ends it without an error')
  t.same(await ended, [0, null], 'and the stream ends with it')
})

t.test('a second run starts from a fresh copy', async t => {
  const copy = copyOfRepository(t)
  for (const name of ['first', 'second']) {
    const { runner, shown } = startRun(t, copy)
    const { read, change } = await commandsIn(shown)
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
  const { runner, shown } = startRun(t, copy)
  const { read } = await commandsIn(shown)
  t.match(await run('sh', ['-c', `cd '${copy}' && exec node ${RUN.join(' ')}`], ENV), {
    status: 1,
    stdout: '',
    stderr: `make run: it is already running; press Ctrl-C in its terminal, or end it first: kill ${runner.pid}\n`,
  })
  const system = await run('sh', ['-c', read.replace('curl', 'curl -sS')])
  t.match(JSON.parse(system.stdout), { deviceName: 'Meeting Room 4' })
  t.match(readFileSync(join(copy, 'build/out/device/etc/machine-info'), 'utf8'), 'Meeting Room 4')
})

t.test('in the background, it ends with make', async t => {
  const copy = copyOfRepository(t)
  const make = spawn('make', ['-o', 'build', 'run'], { cwd: copy, env: ENV, stdio: ['ignore', 'pipe', 'ignore'] })
  const shown = output(make)
  await commandsIn(shown)
  const [, address = ''] = /address {2}(\S+)/.exec(shown()) ?? []
  t.equal((await fetch(`${address}/api/v1/health`)).status, 200)
  const [, page = ''] = /page {5}(\S+)/.exec(shown()) ?? []
  t.match(page, /^http:\/\/127\.0\.0\.1:\d+\/#key=\S{43}$/)
  t.match(await (await fetch(page)).text(), '<!doctype html>')
  const ended = once(make, 'exit', { signal: AbortSignal.timeout(DEADLINE_MS) })
  make.kill('SIGTERM')
  await ended
  await eventually(() =>
    fetch(`${address}/api/v1/health`).then(
      () => false,
      () => true,
    ),
  )
  const { read } = await commandsIn(startRun(t, copy).shown)
  t.ok(read, 'and can be started again')
})

t.test('options in the environment reach the service, but not those that would change another system', async t => {
  const copy = copyOfRepository(t)
  const env = {
    ...ENV,
    RECEIVERD_STREAM: '1',
    RECEIVERD_ROOT: '/nonexistent',
    RECEIVERD_ENGINES: '/nonexistent/socket',
  }
  const { shown } = startRun(t, copy, env)
  const { read } = await commandsIn(shown)
  t.match(shown(), 'RECEIVERD_STREAM is not an option and has no effect; did you mean RECEIVERD_STREAMS?')
  const system = await run('sh', ['-c', read.replace('curl', 'curl -sS')])
  t.match(JSON.parse(system.stdout), { deviceName: 'Meeting Room 4' })
})

t.test('a port that is in use: how to choose another', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  const env = { ...ENV, RECEIVERD_LISTEN: `127.0.0.1:${port}` }
  const { runner, shown } = startRun(t, copyOfRepository(t), env)
  t.same(await once(runner, 'close'), [1, null])
  t.match(shown(), `receiverd: cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)`)
  t.match(shown(), /^For another port: RECEIVERD_LISTEN=127\.0\.0\.1:8081 make run$/m)
})

t.test('a bundle that was built from other sources is refused', async t => {
  const copy = copyOfRepository(t)
  const outcome = () => run('sh', ['-c', `cd '${copy}' && exec node ${RUN.join(' ')}`], ENV)
  appendFileSync(join(copy, 'src/main.ts'), '\n')
  const stale = await outcome()
  t.equal(stale.status, 1)
  t.match(stale.stderr, /build\/out\/receiverd\.cjs is out of date, the sources have changed since: run make build$/m)
  rmSync(join(copy, 'build/out/receiverd.cjs'))
  t.match((await outcome()).stderr, /build\/out\/receiverd\.cjs does not exist: run make build$/m)
})

t.test('Ctrl-C at a terminal ends it without an error', { skip: needs('python3') }, async t => {
  const copy = copyOfRepository(t)
  const { stdout } = await run('sh', ['-c', `cd '${copy}' && exec ${PYTHON} -c "$PROGRAM" ${DEADLINE_MS / 2000}`], {
    ...ENV,
    PROGRAM: AT_A_TERMINAL,
  })
  t.match(stdout, /^pressed 0$/m)
  t.notMatch(stdout, /\*\*\*/, 'make reports no error')
})
