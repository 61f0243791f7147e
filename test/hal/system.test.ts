import { join } from 'node:path'
import { test } from 'tap'
import { CommandFailed, reasonOf } from '../../hal/errors.ts'
import { type Argv, runCommand, System } from '../../hal/system.ts'
import { systemError } from './support/file-system.ts'

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
    [['sh', '-c', 'head -c 100000 /dev/zero'], 'sh failed'],
  ] as const satisfies readonly (readonly [Argv, string])[]) {
    const error = await runCommand(argv).catch(error => error)
    t.ok(error instanceof CommandFailed)
    t.equal(reasonOf(error), message)
  }
})

test('under another root no command runs but those for units, with that root', async t => {
  const root = t.testdir({})
  const ran: string[][] = []
  const system = new System(root, { run: async argv => `${ran.push([...argv])}` })
  await t.rejects(system.run(['systemctl', 'restart', 'unit']), { message: 'systemctl is not run for another root' })
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
