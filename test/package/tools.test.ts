/** A target checks its needs first: before minutes of downloads and builds. */
import { spawnSync } from 'node:child_process'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'

const targets: [target: string, check: string][] = [
  ['deb', 'build/deb.sh check'],
  ['image', '. build/image/binfmt.sh'],
  ['bundle', 'build/image/bundle.sh check'],
  ['device-test', 'test/device/tools.sh'],
  ['device-build', 'test/device/tools.sh'],
  ['update-test', 'test/device/tools.sh'],
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
  const check = (command: string) =>
    spawnSync('/bin/sh', ['-c', command], { cwd: REPOSITORY, env: { PATH: '/nonexistent' }, encoding: 'utf8' })
  const lacks = (command: string, stderr: RegExp) => t.match(check(command), { status: 1, stdout: '', stderr }, command)
  lacks('. build/deb.sh check', /^make deb needs debhelper: apt-get install --no-install-recommends debhelper\n$/)
  lacks('. build/image/bundle.sh check', /^make bundle needs [^\n]* squashfs-tools[^\n]*\n$/)
  lacks('. test/device/tools.sh', /^[^\n]+ mmdebstrap qemu-utils [^\n]+\n$/)
  lacks('id() { echo 0; }; . build/image/binfmt.sh', /^make image needs mmdebstrap [^\n]*xz-utils[^\n]*\n$/)
})

t.test('a tool is a command, or a file by its path; its package is named', async t => {
  const need = (...tools: readonly string[]) =>
    spawnSync('/bin/sh', ['-c', `. build/tools.sh; need it ${tools.join(' ')}; echo all`], {
      cwd: REPOSITORY,
      encoding: 'utf8',
    })
  t.match(need('sh:dash', '/etc/passwd:base-passwd'), { status: 0, stdout: 'all\n', stderr: '' })
  t.match(need('sh:dash', '/etc/no/libx++.so.6:libx++6-cross', 'no-such-tool:package'), {
    status: 1,
    stdout: '',
    stderr: 'it needs libx++6-cross package: apt-get install --no-install-recommends libx++6-cross package\n',
  })
})
