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
  t.equal(packages.length, 2)
  for (const name of packages) t.equal(run('lintian', '--allow-root', '--fail-on', 'none', join(OUT, name)), '', name)
})

t.test('the package contains what make install lays out', async t => {
  const name = packages.find(name => name.startsWith('receiverd_')) ?? ''
  const lines = run('dpkg-deb', '--contents', join(OUT, name)).split('\n')
  for (const path of [
    '/etc/default/receiverd',
    '/lib/systemd/system/receiverd.service',
    '/lib/systemd/system/receiverd.socket',
    '/usr/bin/receiverd',
    '/usr/lib/receiverd/receiverd.cjs',
    '/usr/lib/systemd/system-preset/50-receiverd.preset',
    '/usr/lib/tmpfiles.d/receiverd.conf',
    '/usr/share/man/man8/receiverd.8.gz',
  ])
    t.ok(
      lines.some(line => line.endsWith(` .${path}`)),
      path,
    )
})
