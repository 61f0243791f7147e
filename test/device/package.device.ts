/** The Debian packages, as Debian's own tools see them. */
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'

const OUT = join(REPOSITORY, 'build/out')
const run = (program: string, ...args: string[]) => execFileSync(program, args, { encoding: 'utf8' })

const packages = readdirSync(OUT).filter(name => name.endsWith('.deb'))

t.test('lintian finds nothing', async t => {
  t.equal(packages.length, 4)
  for (const name of packages) t.equal(run('lintian', '--allow-root', '--fail-on', 'none', join(OUT, name)), '', name)
})

t.test('the packages contain what make install lays out', async t => {
  const contents = (name: string) =>
    run('dpkg-deb', '--contents', join(OUT, packages.find(file => file.startsWith(`${name}_`)) ?? '')).split('\n')
  const lines = [...contents('receiverd'), ...contents('receiverd-mirroring'), ...contents('receiverd-tls')]
  for (const path of [
    '/etc/default/receiverd',
    '/etc/receiverd/nginx.conf',
    '/lib/systemd/system/nginx.service.d/50-receiverd.conf',
    '/lib/systemd/system/receiverd.service',
    '/lib/systemd/system/receiverd.socket',
    '/lib/systemd/system/screen@.service',
    '/lib/systemd/system/uxplay.service',
    '/lib/systemd/system/weston.service',
    '/usr/bin/receiverd',
    '/usr/lib/receiverd/receiverd.cjs',
    '/usr/lib/systemd/system-preset/50-receiverd.preset',
    '/usr/lib/tmpfiles.d/receiverd.conf',
    '/usr/lib/receiverd/uxplay',
    '/usr/lib/udev/rules.d/70-weston.rules',
    '/usr/share/man/man8/receiverd.8.gz',
  ])
    t.ok(
      lines.some(line => line.endsWith(` .${path}`)),
      path,
    )
})
