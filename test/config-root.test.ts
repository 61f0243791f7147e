import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { Files } from '../hal/files/files.ts'
import { readRoot, readStateDir } from '../src/config.ts'
import { UsageError } from '../src/usage-error.ts'
import { newRoot, treeOf } from './hal/support/tree.ts'

test('the root is its real path, so that every way to write / is the running system', t => {
  const root = newRoot(t)
  symlinkSync('/', join(root, 'slash'))
  symlinkSync(root, join(root, 'self'))
  const up = root.replace(/[^/]+/g, '..')
  for (const path of ['/', '//', '///', '/etc/..', `${root}/${up}//`, join(root, 'slash'), join(root, 'slash/')])
    t.equal(readRoot({ root: path }, {}), '/', path)
  t.equal(readRoot({}, {}), '/')
  t.equal(readRoot({}, { RECEIVERD_ROOT: '//' }), '/')
  t.equal(readRoot({ root: `${root}/self//` }, { RECEIVERD_ROOT: '/' }), root)
  t.end()
})

test('a root that is not there, or not a folder, is a usage error that says so', t => {
  const root = newRoot(t)
  writeFileSync(join(root, 'file'), '')
  symlinkSync('loop', join(root, 'loop'))
  for (const [path, message] of [
    ['nowhere', /^--root: ".*\/nowhere" does not exist$/],
    ['file', /^--root: ".*\/file" cannot be used: it is not a folder$/],
    ['file/below', /^--root: ".*\/below" cannot be used: not a directory \(ENOTDIR\)$/],
    ['loop', /^--root: ".*\/loop" cannot be used: too many symbolic links encountered \(ELOOP\)$/],
  ] as const) {
    const error = refusalOf(() => readRoot({ root: join(root, path) }, {}))
    t.ok(error instanceof UsageError, path)
    t.match(error.message, message)
  }
  t.match(
    refusalOf(() => readRoot({}, { RECEIVERD_ROOT: '/no/where' })).message,
    'RECEIVERD_ROOT: "/no/where" does not',
  )
  t.end()
})

test('the state directory of another root is under that root, whatever its links say', async t => {
  const [root, outside] = [newRoot(t), newRoot(t)]
  const untouched = treeOf(outside)
  const cases: readonly (readonly [string, string, string])[] = [
    ['var', outside, join(root, outside, 'lib/receiverd')],
    ['var/lib', `../../../../../../..${outside}`, join(root, outside, 'receiverd')],
    ['var/lib/receiverd', join(outside, 'etc'), join(root, outside, 'etc')],
  ]
  for (const [path, target, expected] of cases) {
    const tree = join(root, path.replaceAll('/', '-'))
    mkdirSync(join(tree, path, '..'), { recursive: true })
    symlinkSync(target, join(tree, path))
    const state = readStateDir({ root: tree }, {})
    t.equal(state, expected.replace(root, tree), `${path} → ${target}`)
    await new Files(state).writeAtomic('/api-key', 'key')
    t.same(readdirSync(state), ['api-key'])
  }
  t.same(treeOf(outside), untouched)
  t.equal(readStateDir({ root }, {}), join(root, 'var/lib/receiverd'), 'also if nothing is there yet')
  t.equal(readStateDir({ root, 'state-dir': outside }, {}), outside, 'a given one is taken as it is')
  t.equal(readStateDir({ root }, { STATE_DIRECTORY: `${outside}:/other` }), outside)
})

test('a loop in the place of the state directory is a usage error', t => {
  const root = newRoot(t)
  symlinkSync('var', join(root, 'var'))
  const error = refusalOf(() => readStateDir({ root }, {}))
  t.ok(error instanceof UsageError)
  t.match(
    error.message,
    /^\/var\/lib\/receiverd under the root .* cannot be used: the path has too many symbolic links$/,
  )
  t.end()
})

function refusalOf(act: () => unknown): Error {
  try {
    act()
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('nothing was refused')
}
