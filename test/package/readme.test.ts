/** What the README names exists. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'

const readme = readFileSync(join(REPOSITORY, 'README.md'), 'utf8')
const makefile = readFileSync(join(REPOSITORY, 'Makefile'), 'utf8')

t.test('files and folders', async t => {
  const paths = new Set(
    Array.from(readme.matchAll(/(?<![\w/.])(?:src|hal|test|build)\/[\w./-]*\w\/?/g), ([path]) => path),
  )
  t.ok(paths.size > 20)
  for (const path of paths)
    if (!/^build\/out|NAME|node_modules/.test(path)) t.ok(existsSync(join(REPOSITORY, path)), path)
})

t.test('targets of make', async t => {
  const targets = new Set(Array.from(readme.matchAll(/(?:`|^|&& )make ([a-z-]+)/gm), ([, target]) => target))
  t.ok(targets.size > 8)
  for (const target of targets) t.ok(new RegExp(`^${target}:`, 'm').test(makefile), `make ${target}`)
})
