/** The units as `make install` lays them out, judged by systemd itself. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'

const UNITS = ['receiverd.socket', 'receiverd-engines.socket', 'receiverd.service'] as const
const UPDATE_UNITS = [
  'receiverd-judge.service',
  'receiverd-good.service',
  'receiverd-late.timer',
  'receiverd-late.service',
] as const
const skip = needs('systemd-analyze')

/** Units that strangers reach, and limits of exposure, of 10. */
const SANDBOXED = [
  ['uxplay.service', 2],
  ['weston.service', 1.5],
  ['screen@idle.service', 1],
  ['nginx.service', 3],
  ['receiverd-judge.service', 2],
  ['receiverd-download@.service', 1.5],
] as const

/** A root with the files of all `make install…`, gone after the test. */
function installed(t: Test): string {
  const root = temporaryFolder(t)
  const targets = ['install', 'install-uxplay', 'install-screen', 'install-tls', 'install-update']
  execFileSync('make', ['-s', '-o', 'build', ...targets, `DESTDIR=${root}`], { cwd: REPOSITORY })
  // Debian's nginx.service, which the drop-in is for.
  writeFileSync(
    join(root, 'usr/lib/systemd/system/nginx.service'),
    '[Service]\nType=forking\nPIDFile=/run/nginx.pid\nExecStart=/usr/sbin/nginx\n',
  )
  return root
}

function enablement(root: string): readonly string[] {
  const { stdout } = spawnSync('systemctl', [`--root=${root}`, 'is-enabled', ...UNITS], { encoding: 'utf8' })
  return stdout.trim().split('\n')
}

t.test('systemd finds nothing to warn of', { skip }, async t => {
  const root = installed(t)
  const names = [
    ...UNITS,
    ...UPDATE_UNITS,
    'uxplay.service',
    'weston.service',
    'screen@.service',
    'nginx.service',
    'receiverd-download@.service',
  ]
  const units = names.map(unit => join(root, 'usr/lib/systemd/system', unit))
  const { stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...units], { encoding: 'utf8' })
  // It looks for the programs, and for other units, on this machine, where they are not installed.
  const expected = /: Command \S+ is not executable|: Unit (seatd|avahi-daemon)\.service not found/
  const ours = /^\S*(receiverd|uxplay|weston|screen@|nginx)/
  t.same(
    stderr.split('\n').filter(line => ours.test(line) && !expected.test(line)),
    [],
  )
})

t.test('units that strangers reach are sandboxed', { skip }, async t => {
  const root = installed(t)
  for (const [unit, most] of SANDBOXED) {
    const options = ['security', '--offline=true', '--no-pager', `--root=${root}`, unit]
    const { stdout } = spawnSync('systemd-analyze', options, { encoding: 'utf8' })
    const [, level] = /Overall exposure level for \S+: ([\d.]+)/.exec(stdout) ?? []
    t.ok(Number(level) <= most, `${unit}: ${level}`)
  }
})

t.test('the unit of the package for fleets', { skip }, async t => {
  const unit = 'src/fleet/bridge/receiverd-fleet-bridge.service'
  const options = { encoding: 'utf8', cwd: REPOSITORY } as const
  const keys = ['path', 'service'].map(kind => `src/fleet/bridge/receiverd-fleet-bridge-keys.${kind}`)
  const { stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', unit, ...keys], options)
  const lines = stderr.split('\n').filter(line => line.includes('receiverd-fleet') && !/is not executable/.test(line))
  t.same(lines, [])
  const { stdout } = spawnSync('systemd-analyze', ['security', '--offline=true', '--no-pager', unit], options)
  const [, level] = /Overall exposure level for \S+: ([\d.]+)/.exec(stdout) ?? []
  t.ok(Number(level) <= 1.5, `${level}`)
})

t.test('no device is out of reach because its driver was loaded later', async t => {
  /** The modules that register the groups of devices in /proc/devices. The others are part of Debian's kernel. */
  const modules = { alsa: 'snd', drm: 'drm', video4linux: 'videodev' }
  for (const name of ['receiverd.service', 'uxplay.service']) {
    const unit = readFileSync(join(REPOSITORY, 'build/package', name), 'utf8')
    for (const [group, module] of Object.entries(modules)) {
      if (!unit.includes(`DeviceAllow=char-${group} `)) continue
      for (const relation of ['Wants', 'After'])
        t.match(
          unit,
          new RegExp(`^${relation}=.* ?modprobe@${module}\\.service`, 'm'),
          `${name}: ${relation}, ${group}`,
        )
    }
  }
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
  const message = 'Node is not installed; install receiverd-node, or nodejs 20.19 or later\n'
  t.match(run({}), { status: 2, stdout: '', stderr: `receiverd: ${message}` })
  const supervised = run({ NOTIFY_SOCKET: '/run/systemd/notify' })
  t.match(supervised, { status: 2, stdout: 'sleep 5\n', stderr: `<3>${message}` }, 'with its priority in the journal')
})

t.test('a version on trial that fails in any way restarts the device, and nothing else does', async t => {
  const read = (name: string) => readFileSync(join(REPOSITORY, 'build/package', name), 'utf8')
  const restarting = readdirSync(join(REPOSITORY, 'build/package')).filter(name =>
    /^(Failure|Success|StartLimit|JobTimeout)Action=/m.test(read(name)),
  )
  t.same(restarting, ['receiverd-judge.service', 'receiverd-late.service'])
  for (const name of restarting) {
    // Without the record, they do not even start; one of them also if the data partition that has it cannot be mounted.
    const paths = Array.from(read(name).matchAll(/^ConditionPathExists=(.*)$/gm), match => match[1])
    const isLate = name === 'receiverd-late.service'
    t.same(paths, isLate ? ['|/data/update/trial.json', '|/run/receiver-without-data'] : ['/data/update/trial.json'])
    t.match(read(name), /^ExecStart=\/usr\/lib\/receiverd\/judge (trial|late)$/m, name)
  }
  t.match(read('receiverd-late.timer'), /^DefaultDependencies=no$/m, 'it runs whatever else does not')
})
