import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { errorCode, reasonOf } from '../../../hal/errors.ts'
import { type Argv, monitorCommand, runCommand, System } from '../../../hal/os/system.ts'
import { eventually } from '../../support/eventually.ts'
import { systemError } from '../support/file-system.ts'

test('a command runs with no shell, no input and few variables', async t => {
  t.equal(await runCommand(['printf', '%s', '$HOME; `id` *']), '$HOME; `id` *')
  t.equal(await runCommand(['cat']), '', 'the input is at its end')
  process.env.RECEIVERD_TEST = 'secret'
  t.teardown(() => delete process.env.RECEIVERD_TEST)
  const script = 'printf "%s|%s|%s" "$LC_ALL" "$PATH" "$RECEIVERD_TEST"'
  t.equal(await runCommand(['sh', '-c', script]), `C|${process.env.PATH}|`)
})

test('a command that fails says how, and not what it printed', async t => {
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

test('under another root no command runs but those for units, with that root', async t => {
  const root = t.testdir({})
  const ran: string[][] = []
  const system = new System(root, {
    run: async argv => `${ran.push([...argv])}`,
    monitor: argv => () => ran.push([...argv]),
  })
  system.monitor(['alsactl', 'monitor'], () => undefined)()
  await t.rejects(system.run(['systemctl', 'restart', 'unit']), { message: 'systemctl does not run on another root' })
  t.same(ran, [])
  await system.setUnitEnabled('unit', true)
  await system.setUnitEnabled('unit', false)
  t.same(ran, [
    ['systemctl', `--root=${root}`, 'enable', 'unit'],
    ['systemctl', `--root=${root}`, 'disable', 'unit'],
  ])
  t.equal(new System('/').isRunning, true)
  t.equal(new System(join(root, '..')).isRunning, false)
})

test('a reason names the error, and no path', t => {
  t.equal(reasonOf(systemError('EROFS')), 'read-only file system (EROFS)')
  t.equal(reasonOf(new Error('/etc/secret')), 'unexpected error')
  t.equal(reasonOf('/etc/secret'), 'unexpected error')
  t.end()
})

const node = (script: string) => [process.execPath, '-e', script] as const

test('a command is followed line by line', async t => {
  const lines: string[] = []
  const long = 'x'.repeat(10_000)
  const stop = monitorCommand(
    node(`process.stdout.write('one\\ntw'); setTimeout(() => process.stdout.write('o\\n${long}\\nhalf'), 50)
      setInterval(() => undefined, 1000)`),
    line => lines.push(line),
  )
  await eventually(() => lines.length >= 3)
  stop()
  t.strictSame(lines, ['one', 'two', 'x'.repeat(4_096)])
})

test('a command that ends is started again, until it is stopped', async t => {
  const file = join(t.testdir(), 'starts')
  let lines = 0
  const script = `require('node:fs').appendFileSync(${JSON.stringify(file)}, '.'); console.log(process.pid)`
  const stop = monitorCommand(node(script), () => lines++)
  await eventually(() => lines >= 2)
  stop()
  const starts = readFileSync(file, 'utf8').length
  await new Promise(resolve => setTimeout(resolve, 1_500))
  t.equal(readFileSync(file, 'utf8').length, starts)
})

test('a command that is stopped ends', async t => {
  let pid = 0
  const stop = monitorCommand(node('console.log(process.pid); setInterval(() => undefined, 1000)'), line => {
    pid = Number(line)
  })
  await eventually(() => pid > 0)
  stop()
  await eventually(() => !existsSync(`/proc/${pid}`))
  t.pass('its process is gone')
})

test('a command that is missing is no error', async t => {
  const stop = monitorCommand(['no-such-command'], () => t.fail('a line'))
  await new Promise(resolve => setTimeout(resolve, 50))
  stop()
})

test('what is followed keeps no process alive', async t => {
  const before = process.getActiveResourcesInfo()
  const stops = [['sleep', '60'] as const, ['no-such-command'] as const].map(argv =>
    monitorCommand(argv, () => undefined),
  )
  await new Promise(resolve => setTimeout(resolve, 50))
  const added = process.getActiveResourcesInfo().slice(before.length)
  t.strictSame(
    added.filter(resource => /process|pipe|timeout/i.test(resource)),
    [],
  )
  for (const stop of stops) stop()
})
