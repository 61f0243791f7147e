/** What a target needs is checked first: before minutes of downloads and builds. */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'

const targets: [target: string, check: string][] = [
  ['deb', 'build/deb.sh check'],
  ['image', '. build/image/binfmt.sh'],
  ['bundle', 'build/image/bundle.sh check'],
  ['device-test', 'test/device/tools.sh'],
  ['power-test', 'test/device/tools.sh'],
  ['storage-test', 'test/device/tools.sh'],
  ['card-test', 'test/device/tools.sh'],
]

t.test('the check is the first command of its target', async t => {
  for (const [target, check] of targets) {
    const { status, stdout } = spawnSync('make', ['--dry-run', '--always-make', '--no-print-directory', target], {
      cwd: REPOSITORY,
      encoding: 'utf8',
    })
    t.match({ status, stdout: stdout.split('\n')[0] }, { status: 0, stdout: check }, target)
  }
})

t.test('one line says what to install', async t => {
  const check = (script: string, ...args: string[]) =>
    spawnSync('/bin/sh', [script, ...args], { cwd: REPOSITORY, env: { PATH: '/nonexistent' }, encoding: 'utf8' })
  t.match(check('build/deb.sh', 'check'), {
    status: 1,
    stdout: '',
    stderr: /^make deb needs debhelper: apt-get install debhelper\n$/,
  })
  t.match(check('test/device/tools.sh'), {
    status: 1,
    stdout: '',
    stderr: /^[^\n]+ qemu-system-arm qemu-utils [^\n]+\n$/,
  })
})
