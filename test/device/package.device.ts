/** The Debian packages, as Debian's own tools see them. */
import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'

const OUT = join(REPOSITORY, 'build/out')
const run = (program: string, ...args: string[]) => execFileSync(program, args, { encoding: 'utf8' })

t.test('lintian finds nothing', async t => {
  const packages = readdirSync(OUT).filter(name => name.endsWith('.deb'))
  t.equal(packages.length, 2)
  for (const name of packages) t.equal(run('lintian', '--allow-root', '--fail-on', 'none', join(OUT, name)), '', name)
})
