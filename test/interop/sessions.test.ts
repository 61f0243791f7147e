/** Sessions with the programs that people use: curl as an engine, and `receiverd session` around a command. */

import { spawn, spawnSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createNetServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Session } from '../../src/sessions/session.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { BUNDLE, type Receiver, receiverd, startReceiver } from './support.ts'

/** A program that goes on, with its output. */
function start(t: Test, command: string, args: readonly string[]) {
  const child = spawn(command, args)
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (output += text))
  const ended = new Promise<number | null>(resolve => child.on('exit', resolve))
  const prints = (text: string) => eventually(() => output.includes(text))
  return { child, ended, prints, output: () => output }
}

async function startModerated(t: Test) {
  const engines = join(temporaryFolder(t), 'engines')
  const receiver = await startReceiver(t, { env: { RECEIVERD_ENGINES: engines } })
  await receiver.patch({ moderation: { approval: 'moderator' } })
  const session = (...command: string[]) =>
    start(t, process.execPath, [
      ...[BUNDLE, 'session', '--protocol', 'miracast', '--name', "Ann's Pixel", '--engines', engines, '--'],
      ...command,
    ])
  return { receiver, engines, session }
}

/** The only session, once it is in a state. */
const only = (receiver: Receiver, state: string) =>
  eventually(async () => {
    const { sessions } = (await (await receiver.fetch('/sessions')).json()) as { sessions: Session[] }
    return sessions.length === 1 && sessions[0]?.state === state && sessions[0]
  })

const none = (receiver: Receiver) =>
  eventually(async () => (await (await receiver.fetch('/sessions')).text()) === '{"sessions":[]}')

const admit = (receiver: Receiver, { id }: Session) => receiver.fetch(`/sessions/${id}/admit`, { method: 'POST' })
const end = (receiver: Receiver, { id }: Session) => receiver.fetch(`/sessions/${id}`, { method: 'DELETE' })

t.test('curl', async t => {
  const { receiver, engines } = await startModerated(t)
  const ask = '{"protocol":"miracast","name":"Pixel 9"}'
  const curl = () => start(t, 'curl', ['-sN', '--unix-socket', engines, '-d', ask, 'http://engine/sessions'])
  const one = curl()
  const session = await only(receiver, 'pending')
  t.match(session, { protocol: 'miracast', name: 'Pixel 9', model: '', deviceId: '', address: '' })
  await one.prints(`{"id":"${session.id}","state":"pending","since":"${session.since}"}\n`)
  t.equal((await admit(receiver, session)).status, 200)
  await one.prints('{"state":"active","since":"')
  one.child.kill()
  await none(receiver)

  const two = curl()
  t.equal((await end(receiver, await only(receiver, 'pending'))).status, 204)
  t.equal(await two.ended, 0, 'the service has closed the connection')
  t.ok(two.output().endsWith('{"state":"denied","reason":"moderator"}\n'))
})

t.test('a command: waits, runs, and is ended', async t => {
  const { receiver, session } = await startModerated(t)
  const one = session('sh', '-c', 'echo playing; trap "echo stopping; exit 7" TERM; while :; do sleep 0.1; done')
  await one.prints('receiverd: waiting for a moderator\n')
  t.notMatch(one.output(), 'playing')
  await admit(receiver, await only(receiver, 'pending'))
  await one.prints('playing\n')
  t.equal((await end(receiver, await only(receiver, 'active'))).status, 204)
  t.equal(await one.ended, 7, 'the status of the command')
  t.match(one.output(), 'stopping')
  await none(receiver)

  const denied = session('echo', 'playing')
  await end(receiver, await only(receiver, 'pending'))
  t.equal(await denied.ended, 75)
  t.equal(denied.output(), 'receiverd: waiting for a moderator\nreceiverd: denied (moderator)\n')

  const missing = session('no-such-command')
  await admit(receiver, await only(receiver, 'pending'))
  t.equal(await missing.ended, 1)
  t.match(missing.output(), /receiverd: no-such-command is not installed\n$/)
  await none(receiver)

  const killed = session('sleep', '60')
  await only(receiver, 'pending')
  killed.child.kill('SIGTERM')
  t.equal(await killed.ended, 143)
  await none(receiver)

  for (const [signal, status] of [
    ['SIGHUP', 129],
    ['SIGQUIT', 131],
  ] as const) {
    const hungUp = session('sleep', '60')
    await admit(receiver, await only(receiver, 'pending'))
    await hungUp.prints('let in')
    await only(receiver, 'active')
    hungUp.child.kill(signal)
    t.equal(await hungUp.ended, status, 'that of the command')
    await none(receiver)
  }
})

/** Half the time for which the commands below sleep, unless they are ended. */
const HALF_OF_IT_MS = 30_000

t.test('all that a command has started ends with the session', async t => {
  const { receiver, session } = await startModerated(t)
  const over = join(temporaryFolder(t), 'over')
  const cases: readonly (readonly [script: (play: string) => string, status: number, isEnded?: boolean])[] = [
    [play => `${play}; echo cleanup`, 143],
    [play => `trap "" TERM; ${play} & trap "exit 7" TERM; while :; do sleep 0.1; done`, 7],
    [play => `${play} & while [ ! -e ${over} ]; do sleep 0.1; done; exit 7`, 7, false],
  ]
  for (const [at, [script, status, isEnded = true]] of cases.entries()) {
    const seconds = `60.${process.pid}${at}`
    const isPlaying = () => spawnSync('pgrep', ['-f', `^sleep ${seconds}`]).status === 0
    const one = session('sh', '-c', `echo playing; ${script(`sleep ${seconds}`)}`)
    await admit(receiver, await only(receiver, 'pending'))
    await one.prints('playing\n')
    const active = await only(receiver, 'active')
    await eventually(isPlaying)
    if (isEnded) await end(receiver, active)
    else writeFileSync(over, '')
    t.equal(await one.ended, status)
    await eventually(() => !isPlaying(), HALF_OF_IT_MS)
    t.pass('it does not go on in no session')
    t.notMatch(one.output(), 'cleanup')
    await none(receiver)
  }
})

t.test('at a terminal, the command can ask, and Ctrl-C ends it', { skip: needs('/usr/bin/script') }, async t => {
  const { receiver, engines } = await startModerated(t)
  await receiver.patch({ moderation: { approval: 'none' } })
  const script = 'read name </dev/tty; read other; echo "$other and $name"; exec sleep 60'
  const args = `session --protocol demo --name Ann --engines ${engines} -- sh -c '${script}'`
  const one = start(t, 'script', ['-qec', `${process.execPath} ${BUNDLE} ${args}`, '/dev/null'])
  await one.prints('let in')
  one.child.stdin.write('Ann\nBob\n')
  await one.prints('Bob and Ann')
  one.child.stdin.write('\u0003')
  t.equal(await one.ended, 130)
  await none(receiver)
})

t.test('the service is killed, and comes back: the command goes on', async t => {
  const { receiver, session } = await startModerated(t)
  const one = session('sh', '-c', 'echo playing; exec sleep 60')
  await admit(receiver, await only(receiver, 'pending'))
  await one.prints('playing\n')
  await receiver.restart()
  t.equal((await only(receiver, 'active')).name, "Ann's Pixel", 'after an orderly stop')
  const { host } = new URL(receiver.url)
  await receiver.kill()
  await receiver.start(host)
  t.equal((await only(receiver, 'active')).name, "Ann's Pixel", 'after a crash')
  t.equal(one.output().match(/playing/g)?.length, 1)
  await end(receiver, await only(receiver, 'active'))
  t.equal(await one.ended, 143)
})

t.test('a service that refuses the session when it comes back', async t => {
  for (const [status, goesOn] of [
    [503, true],
    [429, true],
    [422, false],
  ] as const) {
    const socket = join(temporaryFolder(t), 'engines')
    const asked: string[] = []
    const server = createServer((request, response) => {
      request.setEncoding('utf8').on('data', body => asked.push(body))
      request.on('end', () => {
        const isBack = asked.length > 1
        if (!isBack || asked.length > 3) return void response.writeHead(200).write('{"state":"active"}\n')
        response.writeHead(status).end('{"detail":"Not now."}')
      })
    })
    await new Promise<void>(resolve => server.listen(socket, resolve))
    t.teardown(() => server.closeAllConnections())
    t.teardown(() => server.close())
    const script = 'echo "runs as $$"; trap "exit 7" TERM; while :; do sleep 0.05; done'
    const args = ['session', '--protocol', 'demo', '--name', 'Ann', '--engines', socket, '--', 'sh', '-c', script]
    const session = start(t, process.execPath, [BUNDLE, ...args])
    await session.prints('runs as ')
    const pid = Number(/runs as (\d+)/.exec(session.output())?.[1])
    server.closeAllConnections()
    if (goesOn) {
      await eventually(() => asked.length > 3)
      t.match(asked[3], '"state":"active"')
      session.child.kill()
    }
    t.equal(await session.ended, goesOn ? 7 : 1, `${status}`)
    t.throws(() => process.kill(pid, 0), { code: 'ESRCH' }, 'the command is over')
    if (!goesOn) t.match(session.output(), 'receiverd: Not now.')
  }
})

t.test('a command that ends while the service does not answer is over, and nothing is listed', async t => {
  for (const [signal, status] of [
    [undefined, 7],
    ['SIGTERM', 143],
  ] as const) {
    const { receiver, engines, session } = await startModerated(t)
    const folder = temporaryFolder(t)
    const script = `echo playing; while [ ! -e ${folder}/over ]; do sleep 0.05; done; exit 7`
    const one = session('sh', '-c', script)
    await admit(receiver, await only(receiver, 'pending'))
    await one.prints('playing\n')
    // As a socket of systemd's while the service starts: connections are made, and wait.
    await receiver.kill()
    rmSync(engines)
    let waiting = 0
    const socket = createNetServer({ pauseOnConnect: true }, () => waiting++)
    await new Promise<void>(resolve => socket.listen(engines, resolve))
    await eventually(() => waiting > 0)
    if (signal) one.child.kill(signal)
    else writeFileSync(join(folder, 'over'), '')
    t.equal(await one.ended, status)
    socket.close()
  }
})

t.test('a session that waits for a moderator does not wear out the board while the service is away', async t => {
  const { receiver, engines, session } = await startModerated(t)
  const one = session('true')
  await only(receiver, 'pending')
  await receiver.kill()
  rmSync(engines)
  let asked = 0
  const socket = createNetServer(connection => {
    asked++
    connection.destroy()
  })
  await new Promise<void>(resolve => socket.listen(engines, resolve))
  t.teardown(() => socket.close())
  const began = performance.now()
  await eventually(() => asked >= 4)
  t.ok(performance.now() - began > 1_000, 'it waits longer each time')
  one.child.kill()
  t.equal(await one.ended, 143)
})

t.test('interrupted at the moment at which it is let in, it leaves no command behind', async t => {
  for (const ms of [0, 2, 5, 10, 20, 40]) {
    const socket = join(temporaryFolder(t), 'engines')
    let session: ReturnType<typeof start> | undefined
    const server = createServer((_, response) => {
      response.writeHead(200).write('{"state":"active"}\n')
      setTimeout(() => session?.child.kill(), ms)
    })
    await new Promise<void>(resolve => server.listen(socket, resolve))
    t.teardown(() => server.closeAllConnections())
    t.teardown(() => server.close())
    const seconds = `60.${process.pid}${ms}`
    const args = ['session', '--protocol', 'demo', '--name', 'Ann', '--engines', socket, '--']
    session = start(t, process.execPath, [BUNDLE, ...args, 'sleep', seconds])
    // By the signal itself, if that comes before it is ready for signals.
    t.ok([143, null].includes(await session.ended), `after ${ms} ms`)
    await eventually(() => spawnSync('pgrep', ['-f', `^sleep ${seconds}`]).status === 1, HALF_OF_IT_MS)
    t.pass('no command')
  }
})

t.test('usage errors', async t => {
  for (const [args, error] of [
    [
      ['--name', 'x', '--', 'true'],
      '--protocol: give 1 to 32 lower-case letters, digits and hyphens, such as miracast',
    ],
    [['--protocol', 'p', '--', 'true'], '--name: give the name that the moderator sees'],
    [
      ['--protocol', 'p', '--name', 'x'],
      'session: missing command; put it after --, as in: receiverd session … -- mirror',
    ],
  ] as const)
    t.same(await receiverd(['session', ...args]), { status: 2, stdout: '', stderr: `receiverd: ${error}\n` })
  const nowhere = await receiverd(['session', '--protocol', 'p', '--name', 'x', '--engines', '/nowhere', '--', 'true'])
  t.same(nowhere, {
    status: 1,
    stdout: '',
    stderr: 'receiverd: cannot connect to /nowhere: no such file or directory (ENOENT); is the service running?\n',
  })
})
