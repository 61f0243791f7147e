/** The units as `make install` lays them out, judged by systemd itself. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { temporaryFolder } from '../support/folder.ts'

const UNITS = ['receiverd.socket', 'receiverd-engines.socket', 'receiverd.service'] as const
const missing = ['systemctl', 'systemd-analyze'].filter(tool => spawnSync(tool, ['--version']).status !== 0)
const skip = missing.length > 0 && `not installed: ${missing.join(', ')}; apt-get install systemd`

/** A root with the files of `make install`, gone after the test. */
function installed(t: Test): string {
  const root = temporaryFolder(t)
  execFileSync('make', ['-s', '-o', 'build', 'install', `DESTDIR=${root}`], { cwd: REPOSITORY })
  return root
}

function enablement(root: string): readonly string[] {
  const { stdout } = spawnSync('systemctl', [`--root=${root}`, 'is-enabled', ...UNITS], { encoding: 'utf8' })
  return stdout.trim().split('\n')
}

t.test('systemd finds nothing to warn of', { skip }, async t => {
  const root = installed(t)
  const units = UNITS.map(unit => join(root, 'usr/lib/systemd/system', unit))
  const { stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...units], { encoding: 'utf8' })
  // It looks for the program on this machine, where it is not installed.
  const expected = /^receiverd\.service: Command \/usr\/bin\/receiverd is not executable/
  t.same(
    stderr.split('\n').filter(line => line.includes('receiverd') && !expected.test(line)),
    [],
  )
})

t.test('a preset enables the units, on a system that enables nothing by itself', { skip }, async t => {
  const root = installed(t)
  const presets = join(root, 'usr/lib/systemd/system-preset')
  mkdirSync(presets, { recursive: true })
  writeFileSync(join(presets, '99-default.preset'), 'disable *\n')
  t.same(enablement(root), ['disabled', 'disabled', 'disabled'], 'as installed')
  execFileSync('systemctl', [`--root=${root}`, 'preset', ...UNITS], { stdio: 'ignore' })
  t.same(enablement(root), ['enabled', 'enabled', 'enabled'])
})

t.test('the service is not started again when only a person can help', async t => {
  const unit = readFileSync(join(REPOSITORY, 'build/package/receiverd.service'), 'utf8')
  t.match(unit, /^Restart=on-failure$/m)
  t.match(unit, /^RestartPreventExitStatus=2 126$/m)
  t.match(unit, /^StartLimitIntervalSec=0$/m, 'and never given up otherwise')
  // Over the limit of 20 starts in 2 s, systemd would fail the socket, and with it stop the service for good.
  const socket = readFileSync(join(REPOSITORY, 'build/package/receiverd.socket'), 'utf8')
  t.match(socket, /^TriggerLimitIntervalSec=0$/m)
})

t.test('without Node, the program says what to install: exit 2, and under systemd not at once', async t => {
  const script = readFileSync(join(REPOSITORY, 'build/package/receiverd'), 'utf8')
  const bin = temporaryFolder(t)
  // Prints instead of waiting.
  writeFileSync(join(bin, 'sleep'), '#!/bin/sh\necho "sleep $1"\n', { mode: 0o755 })
  const run = (env: NodeJS.ProcessEnv) =>
    spawnSync('/bin/sh', ['-c', script, 'receiverd', 'serve'], { env: { PATH: bin, ...env }, encoding: 'utf8' })
  const message = 'receiverd: Node is not installed; install receiverd-node, or nodejs 20.19 or later\n'
  t.match(run({}), { status: 2, stdout: '', stderr: message })
  t.match(run({ NOTIFY_SOCKET: '/run/systemd/notify' }), { status: 2, stdout: 'sleep 5\n', stderr: message })
})
