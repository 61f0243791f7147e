import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import { ApiKeyStore, generateKey } from '../../src/auth/api-key.ts'
import { eventually } from '../support/eventually.ts'

function stateDir(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'receiverd-state-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

async function open(t: Test, dir: string) {
  const log: string[] = []
  const keys = await ApiKeyStore.open(new Files(dir), (level, message) => log.push(`${level}: ${message}`))
  const replaced: string[] = []
  keys.onReplaced(key => replaced.push(key))
  t.teardown(() => keys.stop())
  return { keys, log, replaced, file: join(dir, 'api-key') }
}

t.test('the first start generates a key that only its owner can read', async t => {
  const umask = process.umask(0)
  t.teardown(() => process.umask(umask))
  const { keys, file } = await open(t, join(stateDir(t), 'not/there/yet'))
  t.match(keys.current, /^[A-Za-z0-9_-]{43}$/)
  t.equal(Buffer.from(keys.current, 'base64url').length, 32)
  t.equal(readFileSync(file, 'utf8'), `${keys.current}\n`)
  t.equal(statSync(file).mode & 0o777, 0o600)
})

t.test('the next start has the same key', async t => {
  const dir = stateDir(t)
  const first = await open(t, dir)
  const second = await open(t, dir)
  t.equal(second.keys.current, first.keys.current)
  t.strictSame(second.log, [])
})

t.test('a rotation is in the file before it is in force', async t => {
  const { keys, replaced, file } = await open(t, stateDir(t))
  const old = keys.current
  const key = await keys.rotate()
  t.not(key, old)
  t.equal(keys.current, key)
  t.equal(readFileSync(file, 'utf8').trim(), key)
  t.strictSame(replaced, [key])
})

t.test('concurrent rotations leave one key, the same in the file and in force', async t => {
  const dir = stateDir(t)
  const { keys, file } = await open(t, dir)
  const made = await Promise.all(Array.from({ length: 8 }, () => keys.rotate()))
  t.equal(new Set(made).size, 8)
  t.equal(keys.current, made.at(-1))
  t.equal(readFileSync(file, 'utf8').trim(), keys.current)
  t.strictSame(readdirSync(dir), ['api-key'], 'no temporary file is left')
})

t.test('a rotation restores the mode of the file', async t => {
  const dir = stateDir(t)
  const { keys, file } = await open(t, dir)
  chmodSync(file, 0o644)
  await keys.rotate()
  t.equal(statSync(file).mode & 0o777, 0o600)
})

t.test('a key file that is replaced from outside is in force at once', async t => {
  const { keys, replaced, file } = await open(t, stateDir(t))
  const key = generateKey()
  writeFileSync(file, `${key}\n`)
  await eventually(() => keys.current === key)
  t.strictSame(replaced, [key])
})

t.test('an invalid file leaves the key in force, and is logged once', async t => {
  for (const garbage of ['', 'x', 'B'.repeat(43), `${generateKey()}A`, '\0'.repeat(44), 'x'.repeat(100_000)]) {
    const { keys, replaced, log, file } = await open(t, stateDir(t))
    const { current } = keys
    writeFileSync(file, garbage)
    await eventually(() => log.length > 1)
    t.equal(keys.current, current)
    t.strictSame(replaced, [])
    t.match(log[1], /^warning: .*keeping the key in force/)
  }
  const { keys, log, file } = await open(t, stateDir(t))
  rmSync(file)
  await eventually(() => log.some(line => line.includes('is gone')))
  t.ok(keys.current)
})

t.test('an invalid file at the start is replaced by a new key', async t => {
  const dir = stateDir(t)
  writeFileSync(join(dir, 'api-key'), '')
  const { keys, log, file } = await open(t, dir)
  t.match(log[0], /^warning: .*a new key was generated/)
  t.equal(readFileSync(file, 'utf8').trim(), keys.current)
})

t.test('whether a generated key was used is remembered', async t => {
  const dir = stateDir(t)
  const open = (passed?: string) =>
    ApiKeyStore.open(
      new Files(dir),
      () => undefined,
      async () => passed,
      true,
    )
  const mark = () => existsSync(join(dir, 'api-key.unused'))
  t.equal((await open()).isUnused, true)
  const keys = await open()
  t.equal(keys.isUnused, true, 'also after a restart')
  keys.used()
  t.equal(keys.isUnused, false)
  await eventually(() => !mark())
  t.equal((await open()).isUnused, false)

  rmSync(join(dir, 'api-key'))
  writeFileSync(join(dir, 'api-key.unused'), '')
  t.equal((await open('x'.repeat(22))).isUnused, false, 'a key from outside is known to somebody')
  t.notOk(mark())
  rmSync(join(dir, 'api-key'))
  const fresh = await open()
  t.ok(fresh.isUnused && mark())
  await fresh.rotate()
  t.equal(fresh.isUnused, false, 'a new key is known to whoever asked for it')
  await eventually(() => !mark())
})

t.test('the first use is told once, and so is the end of a key that nobody used', async t => {
  for (const use of [(keys: ApiKeyStore) => keys.used(), (keys: ApiKeyStore) => keys.rotate()]) {
    const none = async () => undefined
    const keys = await ApiKeyStore.open(new Files(stateDir(t)), () => undefined, none, true)
    let told = 0
    keys.onFirstUse(() => {
      told++
      t.equal(keys.isUnused, false)
    })
    await use(keys)
    await use(keys)
    t.equal(told, 1)
    // Whatever is being written is done before the folder goes.
    await keys.rotate()
  }
})

t.test('a key that may have been used while nobody remembered is not unused', async t => {
  const dir = stateDir(t)
  const open = async (marksUnused: boolean) => {
    const files = new Files(dir)
    return (
      await ApiKeyStore.open(
        files,
        () => undefined,
        async () => undefined,
        marksUnused,
      )
    ).isUnused
  }
  t.same([await open(true), await open(false), await open(true)], [true, false, false])
})
