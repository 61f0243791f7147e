import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { errorCode, reasonOf } from '../../../hal/errors.ts'
import { type Argv, monitorCommand, readCommandLines, runCommand } from '../../../hal/os/command.ts'
import { eventually } from '../../support/eventually.ts'

test('a command runs without a shell or input, and with few variables', async t => {
  t.equal(await runCommand(['printf', '%s', '$HOME; `id` *']), '$HOME; `id` *')
  t.equal(await runCommand(['cat']), '', 'its input is empty')
  process.env.RECEIVERD_TEST = 'secret'
  t.teardown(() => delete process.env.RECEIVERD_TEST)
  const script = 'printf "%s|%s|%s" "$LC_ALL" "$PATH" "$RECEIVERD_TEST"'
  t.equal(await runCommand(['sh', '-c', script]), `C|${process.env.PATH}|`)
})

test('a failed command is described without what it printed', async t => {
  for (const [argv, message] of [
    [['sh', '-c', 'echo secret >&2; exit 3'], 'sh failed with status 3'],
    [['sh', '-c', 'kill -9 $$'], 'sh failed'],
    [['no-such-command', 'secret'], 'no-such-command is not installed'],
    [['sh', '-c', 'head -c 2000000 /dev/zero'], 'sh printed over 1024 KiB'],
  ] as const satisfies readonly (readonly [Argv, string])[]) {
    const error = await runCommand(argv).catch(error => error)
    t.ok(errorCode(error) === 'COMMAND_FAILED')
    t.equal(reasonOf(error), message)
  }
})

test('a command is read line by line until that is enough', async t => {
  const lines: string[] = []
  const take = (enough: number) => (line: string) => lines.push(line) < enough
  await readCommandLines(['printf', 'one\\ntwo\\nhalf'], take(9))
  t.strictSame(lines.splice(0), ['one', 'two'], 'text without a line end is not a line')
  await readCommandLines(['yes'], take(3))
  t.strictSame(lines.splice(0), ['y', 'y', 'y'], 'it does not go on')
  await readCommandLines(['sh', '-c', 'head -c 200000 /dev/zero | tr "\\0" x; echo; echo y'], take(9))
  t.strictSame(
    lines.splice(0).map(line => line.length),
    [65_536, 1],
  )
  await t.rejects(readCommandLines(['sh', '-c', 'echo one; exit 3'], take(9)), { message: 'sh failed with status 3' })
  const thrown = new Error('of the caller')
  const refuse = () => {
    throw thrown
  }
  await t.rejects(readCommandLines(['yes'], refuse), thrown)
  await t.rejects(readCommandLines(['no-such-command'], take(9)), { message: 'no-such-command is not installed' })
})

const node = (script: string) => [process.execPath, '-e', script] as const

test('a monitored command is read line by line, and a line is bounded', async t => {
  const lines: string[] = []
  const long = 'x'.repeat(10_000)
  const stop = monitorCommand(
    node(`process.stdout.write('one\\ntw'); setTimeout(() => process.stdout.write('o\\n${long}\\nhalf'), 50)
      setInterval(() => undefined, 1000)`),
    // An empty line tells that it listens, if its first output takes long.
    line => line !== '' && lines.push(line),
  )
  await eventually(() => lines.length >= 3)
  stop()
  t.strictSame(lines, ['one', 'two', 'x'.repeat(4_096)])
})

test('a command that is not installed is not looked for again', async t => {
  const folder = t.testdir({})
  const { PATH } = process.env
  process.env.PATH = `${folder}:${PATH}`
  t.teardown(() => {
    process.env.PATH = PATH
  })
  const lines: string[] = []
  const stop = monitorCommand(['comes-later'], line => lines.push(line))
  await sleep(200)
  writeFileSync(join(folder, 'comes-later'), '#!/bin/sh\necho here\nsleep 60\n', { mode: 0o755 })
  await sleep(1_500)
  stop()
  t.strictSame(lines, [])
})

test('an empty line tells that it listens, unless it ended before', async t => {
  const lines: string[] = []
  const stops = [['sleep', '60'] as const, ['echo', 'over'] as const].map(argv =>
    monitorCommand(argv, line => lines.push(`${argv[0]}: ${line}`)),
  )
  await eventually(() => lines.includes('sleep: '))
  for (const stop of stops) stop()
  t.notOk(lines.includes('echo: '))
})

test('a line without an end is bounded, whatever its length', async t => {
  const lines: string[] = []
  const stop = monitorCommand(
    ['sh', '-c', "head -c 200000000 /dev/zero | tr '\\0' x; echo; echo next; sleep 60"],
    // An empty line tells that it listens, if its first output takes long.
    line => line !== '' && lines.push(line),
  )
  const before = process.memoryUsage().rss
  await eventually(() => lines.length >= 2)
  stop()
  t.strictSame(lines, ['x'.repeat(4_096), 'next'])
  t.ok(process.memoryUsage().rss - before < 120_000_000)
})

test('a command that ends is started again, until it is stopped', async t => {
  const file = join(t.testdir(), 'starts')
  let lines = 0
  const script = `require('node:fs').appendFileSync(${JSON.stringify(file)}, '.'); console.log(process.pid)`
  const stop = monitorCommand(node(script), () => lines++)
  await eventually(() => lines >= 2)
  stop()
  const starts = readFileSync(file, 'utf8').length
  await sleep(1_500)
  t.equal(readFileSync(file, 'utf8').length, starts)
})

test('a command that keeps ending is started less and less often, also if it prints something', async t => {
  const began = performance.now()
  let starts = 0
  const stop = monitorCommand(['echo', 'a line'], line => line !== '' && starts++)
  await eventually(() => starts >= 3)
  stop()
  t.ok(performance.now() - began > 2_900, 'at once, after 1 s, and 2 s after that')
})

test('a stopped command ends', async t => {
  let pid = 0
  const stop = monitorCommand(node('console.log(process.pid); setInterval(() => undefined, 1000)'), line => {
    pid = Number(line)
  })
  await eventually(() => pid > 0)
  stop()
  await eventually(() => !existsSync(`/proc/${pid}`))
  t.pass('its process is gone')
})

test('a missing command is not an error', async t => {
  const stop = monitorCommand(['no-such-command'], () => t.fail('a line'))
  await sleep(50)
  stop()
})

test('a monitored command does not keep the process running', async t => {
  const count = () =>
    process
      .getActiveResourcesInfo()
      .filter(resource => /process|pipe|timeout/i.test(resource))
      .sort()
  const before = count()
  const stops = [['sleep', '60'] as const, ['no-such-command'] as const].map(argv =>
    monitorCommand(argv, () => undefined),
  )
  await sleep(50)
  t.strictSame(count(), before)
  for (const stop of stops) stop()
})
