import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import { type FileSystem, KERNEL } from '../../hal/files/kernel.ts'
import { ApiKeyStore } from '../../src/auth/api-key.ts'
import { generateKey, markUnused, readKey, replaceKey, writeKey } from '../../src/auth/key-file.ts'
import { POLL_MS, SETTLE_MS } from '../../src/limits.ts'
import { intercepted, systemError } from '../hal/support/file-system.ts'
import { eventually } from '../support/eventually.ts'

function stateDir(t: Test): string {
  const dir = mkdtempSync(join(tmpdir(), 'receiverd-state-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

async function open(t: Test, dir: string) {
  const log: string[] = []
  const keys = await ApiKeyStore.open(new Files(dir), { log: (level, message) => log.push(`${level}: ${message}`) })
  const replaced: string[] = []
  keys.onReplaced(key => replaced.push(key))
  t.teardown(() => keys.stop())
  return { keys, log, replaced, file: join(dir, 'api-key') }
}

const refuse = () => {
  throw new Error('not now')
}

/** Resolves when the store has done what it had begun. */
const settled = (keys: ApiKeyStore) => keys.replace(undefined, refuse).catch(() => undefined)

/** A store with the clock of the test, which also tells it of changes of its file. */
async function openTold(t: Test, dir: string) {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const log: string[] = []
  const watches = new Set<() => void>()
  let reads = 0
  const fs = intercepted(
    call => call.proceed(),
    path => {
      if (path.endsWith('/api-key')) reads++
    },
  )
  const state = new Files(dir, fs)
  state.watch = (_, changed) => {
    watches.add(changed)
    return () => watches.delete(changed)
  }
  const keys = await ApiKeyStore.open(state, { log: (level, message) => void log.push(`${level}: ${message}`) })
  keys.onReplaced(() => undefined)
  reads = 0
  return {
    ...{ keys, log },
    told: () => {
      for (const changed of watches) changed()
    },
    /** Lets this much time pass. @returns how often the file was read. */
    readsIn: async (...periods: readonly number[]) => {
      const before = reads
      for (const ms of periods) mock.timers.tick(ms)
      await settled(keys)
      return reads - before
    },
  }
}

t.test('the first start generates a key that only its owner can read', async t => {
  const umask = process.umask(0)
  t.teardown(() => process.umask(umask))
  const { keys, file } = await open(t, join(stateDir(t), 'not/there/yet'))
  t.match(keys.current, /^[A-Za-z0-9_-]{43}$/)
  t.equal(Buffer.from(keys.current ?? '', 'base64url').length, 32)
  t.equal(readFileSync(file, 'utf8'), `${keys.current}\n`)
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.strictSame([await keys.isFirst(), keys.isUnused], [true, false], 'its use is recorded only on request')
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
  const key = await keys.replace()
  t.not(key, old)
  t.equal(keys.current, key)
  t.equal(readFileSync(file, 'utf8').trim(), key)
  t.strictSame(replaced, [key])
  t.equal(await keys.isFirst(), false)
})

t.test('concurrent rotations leave one key, the same in the file and in force', async t => {
  const dir = stateDir(t)
  const { keys, file } = await open(t, dir)
  const made = await Promise.all(Array.from({ length: 8 }, () => keys.replace()))
  t.equal(new Set(made).size, 8)
  t.equal(keys.current, made.at(-1))
  t.equal(readFileSync(file, 'utf8').trim(), keys.current)
  t.strictSame(readdirSync(dir), ['api-key', 'api-key.former'], 'no temporary file is left')
})

t.test('of two concurrent rotations, the second is refused if the key that it knew is replaced', async t => {
  const { keys, file } = await open(t, stateDir(t))
  const { current } = keys
  const mayStill = () => {
    if (keys.current !== current) throw new Error('replaced')
  }
  const [first, second] = await Promise.allSettled([
    keys.replace(undefined, mayStill),
    keys.replace(undefined, mayStill),
  ])
  t.match(first, { status: 'fulfilled', value: keys.current })
  t.match(second, { status: 'rejected', reason: { message: 'replaced' } })
  t.equal(readFileSync(file, 'utf8'), `${keys.current}\n`)
})

t.test('a rotation restores the mode of the file', async t => {
  const dir = stateDir(t)
  const { keys, file } = await open(t, dir)
  chmodSync(file, 0o644)
  await keys.replace()
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

t.test('with a file that cannot be read at the start no key is in force, until it can', async t => {
  const dir = stateDir(t)
  const place = join(dir, 'api-key')
  writeFileSync(place, 'garbage')
  const { keys, log, replaced } = await open(t, dir)
  t.strictSame([keys.current, keys.isUnused], [undefined, false])
  await eventually(() => log.length > 1)
  const why = 'API key: the file does not contain an API key; only tokens of issuers are accepted'
  t.strictSame(log, [`error: ${why} until \`receiverd key rotate\` repairs it`, `warning: ${why}`])
  t.equal(readFileSync(place, 'utf8'), 'garbage', 'it may be the key of somebody')
  const key = generateKey()
  writeFileSync(place, `${key}\n`)
  await eventually(() => keys.current === key)
  await settled(keys)
  t.strictSame(replaced, [key])
  t.equal(await keys.isFirst(), true, 'nobody knows of another one')
})

t.test('a key that cannot be read is not the first if another one was in force before', async t => {
  const dir = stateDir(t)
  const { keys } = await open(t, dir)
  await keys.replace()
  keys.stop()
  writeFileSync(join(dir, 'api-key'), 'garbage')
  const { keys: again } = await open(t, dir)
  t.strictSame([again.current, await again.isFirst()], [undefined, false])
})

t.test('a file that cannot be read, and goes, leaves no key in force', async t => {
  const dir = stateDir(t)
  writeFileSync(join(dir, 'api-key'), 'garbage')
  const { keys, log, told } = await openTold(t, dir)
  t.equal(log.length, 1)
  rmSync(join(dir, 'api-key'))
  told()
  mock.timers.tick(SETTLE_MS)
  await settled(keys)
  t.equal(keys.current, undefined)
  t.equal(log.length, 1, 'and there is nothing new to say')
})

t.test('a key that a client chooses', async t => {
  const dir = stateDir(t)
  const { keys, replaced, file } = await open(t, dir)
  const first = keys.current ?? ''
  const chosen = 'chosen-key.of~room_4-0123'
  t.equal(await keys.replace(chosen), chosen)
  t.equal(readFileSync(file, 'utf8'), `${chosen}\n`)
  t.equal(await keys.replace(chosen), chosen, 'once more, because the answer was lost')
  t.strictSame(replaced, [chosen], 'which revokes nothing')
  const refused: readonly (readonly [key: string, reason: RegExp])[] = [
    ['short', /22 to 128 characters/],
    ['x'.repeat(129), /22 to 128 characters/],
    ['with a space in the middle', /22 to 128 characters/],
    ['ababababababababababababab', /12 different/],
    [first, /had before/],
  ]
  for (const [key, reason] of refused) await t.rejects(keys.replace(key), reason)
  t.equal(keys.current, chosen)
  t.equal(statSync(join(dir, 'api-key.former')).mode & 0o777, 0o600)
  t.notMatch(readFileSync(join(dir, 'api-key.former'), 'utf8'), first)
  const made: string[] = []
  for (let n = 0; n < 16; n++) made.push(await keys.replace())
  t.equal(await keys.replace(first), first, 'sixteen are remembered')
  await t.rejects(keys.replace(made[3]), /had before/)
})

t.test('where the storage refuses a key, it lasts until there is a place for it', async t => {
  const dir = stateDir(t)
  let isReadOnly = true
  const files = intercepted(call => {
    if (isReadOnly) throw systemError('EROFS')
    return call.proceed()
  })
  const log: string[] = []
  const options = { log: (level: string, message: string) => void log.push(`${level}: ${message}`), marksUnused: true }
  const keys = await ApiKeyStore.open(new Files(join(dir, 'state'), files), options)
  t.teardown(() => keys.stop())
  const { current } = keys
  t.match(current, /^[\w-]{43}$/)
  t.equal(keys.isStored, false)
  t.equal(keys.isUnused, true, 'the screen shows it')
  t.match(log, [/^warning: API key: read-only file system \(EROFS\); the first one was generated, and lasts until/])
  await t.rejects(keys.replace(), { code: 'EROFS' })
  isReadOnly = false
  keys.onReplaced(() => t.fail('it is the same'))
  await eventually(() => keys.isStored)
  t.equal(readFileSync(join(dir, 'state/api-key'), 'utf8'), `${current}\n`)
})

t.test('a key that lasted for this run only is not a former one when it is replaced', async t => {
  const dir = stateDir(t)
  let isReadOnly = true
  const fs = intercepted(call => {
    if (isReadOnly) throw systemError('EROFS')
    return call.proceed()
  })
  const keys = await ApiKeyStore.open(new Files(dir, fs), { log: () => undefined })
  isReadOnly = false
  await keys.replace()
  t.strictSame([keys.isStored, await keys.isFirst()], [true, true])
})

t.test('a key that is there is in force on a read-only file system', async t => {
  const dir = stateDir(t)
  const { keys: stored } = await open(t, dir)
  const log: string[] = []
  const files = intercepted(() => {
    throw systemError('EROFS')
  })
  const keys = await ApiKeyStore.open(new Files(dir, files), { log: (_, message) => void log.push(message) })
  t.equal(keys.current, stored.current)
  t.ok(keys.isStored)
  t.strictSame(log, [], 'nothing had to be written')
})

t.test('whether a generated key was used is remembered', async t => {
  const dir = stateDir(t)
  const open = (passed?: string) =>
    ApiKeyStore.open(new Files(dir), { log: () => undefined, passed: async () => passed, marksUnused: true })
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
  await fresh.replace()
  t.equal(fresh.isUnused, false, 'a new key is known to whoever asked for it')
  await eventually(() => !mark())
})

t.test('the first use is told once, and so is the end of a key that nobody used', async t => {
  for (const use of [(keys: ApiKeyStore) => keys.used(), (keys: ApiKeyStore) => keys.replace()]) {
    const keys = await ApiKeyStore.open(new Files(stateDir(t)), { log: () => undefined, marksUnused: true })
    let told = 0
    keys.onFirstUse(() => {
      told++
      t.equal(keys.isUnused, false)
    })
    await use(keys)
    await use(keys)
    t.equal(told, 1)
    // Any write under way ends before the folder goes.
    await keys.replace()
  }
})

t.test('a key that may have been used while nobody remembered is not unused', async t => {
  const dir = stateDir(t)
  const open = async (marksUnused: boolean) =>
    (await ApiKeyStore.open(new Files(dir), { log: () => undefined, marksUnused })).isUnused
  t.same([await open(true), await open(false), await open(true)], [true, false, false])
})

t.test('a key that was replaced while the service was stopped is not on the screen', async t => {
  const dir = stateDir(t)
  const state = new Files(dir)
  const isUnused = async () => {
    const keys = await ApiKeyStore.open(state, { log: () => undefined, marksUnused: true })
    return keys.isUnused
  }
  t.equal(await isUnused(), true)
  // As `receiverd key rotate` does, and a power cut may leave it while the card's key is taken.
  await replaceKey(state, await readKey(state), 'fleet-key_0001.of~room.4')
  t.equal(await isUnused(), false)
})

t.test('a rotation that fails when the key is in place already is taken back', async t => {
  const dir = stateDir(t)
  let fails = false
  let isInPlace = false
  const fs = intercepted(({ name, path, proceed }) => {
    if (fails && isInPlace && name === 'file.sync') {
      fails = false
      throw systemError('EIO')
    }
    const result = proceed()
    if (name === 'rename' && path.endsWith('/api-key')) isInPlace = true
    return result
  })
  const keys = await ApiKeyStore.open(new Files(dir, fs), { log: () => undefined })
  const old = keys.current
  fails = true
  isInPlace = false
  await t.rejects(keys.replace(), { code: 'EIO' })
  t.equal(readFileSync(join(dir, 'api-key'), 'utf8'), `${old}\n`, 'nobody holds the new one')
})

t.test(
  'where the storage refuses what a key can do without, the key is in force, and the log says what was refused',
  async t => {
    const dir = stateDir(t)
    await ApiKeyStore.open(new Files(dir), { log: () => undefined, marksUnused: true })
    chmodSync(join(dir, 'api-key'), 0o644)
    const fs = intercepted(() => {
      throw systemError('EROFS')
    })
    const log: string[] = []
    const options = {
      log: (level: string, message: string) => void log.push(`${level}: ${message}`),
      marksUnused: true,
    }
    const keys = await ApiKeyStore.open(new Files(dir, fs), options)
    t.teardown(() => keys.stop())
    keys.used()
    await eventually(() => log.length === 2)
    keys.onReplaced(() => undefined)
    const key = generateKey()
    writeFileSync(join(dir, 'api-key'), `${key}\n`)
    await eventually(() => log.length === 4)
    t.equal(keys.current, key)
    const why = 'read-only file system (EROFS)'
    t.strictSame(log, [
      `warning: API key: could not restore the mode of its file: ${why}`,
      `warning: API key: could not record its first use: ${why}`,
      'notice: a new API key is in force; all tokens of the old one are revoked',
      `warning: API key: could not remember the former key: ${why}`,
    ])
  },
)

t.test('where the folder cannot be read at first, the log says so, and the key is in force', async t => {
  const dir = stateDir(t)
  const { keys: stored } = await open(t, dir)
  const fs: FileSystem = {
    ...KERNEL,
    readdir: () => {
      throw systemError('EACCES')
    },
  }
  const log: string[] = []
  const options = { log: (level: string, message: string) => void log.push(`${level}: ${message}`) }
  const keys = await ApiKeyStore.open(new Files(dir, fs), options)
  t.equal(keys.current, stored.current)
  t.strictSame(log, ['warning: API key: could not finish an interrupted write: permission denied (EACCES)'])
})

t.test('a record of use that cannot be read counts as use', async t => {
  const dir = stateDir(t)
  const state = new Files(dir)
  const key = generateKey()
  await writeKey(state, key)
  const isUnused = async () => (await ApiKeyStore.open(state, { log: () => undefined, marksUnused: true })).isUnused
  t.equal(await isUnused(), false)
  await markUnused(state, key)
  t.equal(await isUnused(), true)
  rmSync(join(dir, 'api-key.unused'))
  mkdirSync(join(dir, 'api-key.unused'))
  t.equal(await isUnused(), false)
})

t.test('a weak key from outside can be chosen again while it is in force', async t => {
  const key = 'x'.repeat(22)
  const options = { log: () => undefined, passed: async () => key }
  const keys = await ApiKeyStore.open(new Files(stateDir(t)), options)
  t.equal(await keys.requireUsable(key), undefined)
  t.equal(await keys.replace(key), key)
})

t.test('a key that was replaced from outside is not taken again', async t => {
  const { keys, file } = await open(t, stateDir(t))
  const former = keys.current ?? ''
  await keys.requireUsable(former)
  const key = generateKey()
  writeFileSync(file, `${key}\n`)
  await eventually(() => keys.current === key)
  await t.rejects(keys.replace(former), /had before/)
  await t.rejects(keys.requireUsable(former), /had before/)
  await t.rejects(keys.requireUsable('short'), /22 to 128 characters/)
  t.equal(await keys.requireUsable(generateKey()), undefined)
})

t.test('once stopped, it takes no key any more', async t => {
  const dir = stateDir(t)
  const stopped = await open(t, dir)
  const { current } = stopped.keys
  const other = await open(t, dir)
  stopped.keys.stop()
  const key = generateKey()
  writeFileSync(other.file, `${key}\n`)
  await eventually(() => other.keys.current === key)
  t.equal(stopped.keys.current, current)
})

t.test('a file that is gone is logged each time, and a new one is in force', async t => {
  const { keys, log, file } = await open(t, stateDir(t))
  const isGone = () => log.filter(line => line.endsWith('its file is gone; keeping the key in force')).length
  for (const times of [1, 2]) {
    const { current } = keys
    rmSync(file)
    await eventually(() => isGone() === times)
    t.equal(keys.current, current)
    const key = generateKey()
    writeFileSync(file, `${key}\n`)
    await eventually(() => keys.current === key)
  }
})

t.test('the file is read once for changes at once, and each minute, until the store is stopped', async t => {
  for (const isTold of [false, true]) {
    const { keys, log, told, readsIn } = await openTold(t, stateDir(t))
    for (let n = 0; n < 5; n++) told()
    t.equal(await readsIn(SETTLE_MS - 1), 0, 'it may not be complete')
    t.equal(await readsIn(1), 1)
    t.equal(await readsIn(SETTLE_MS), 0)
    told()
    t.equal(await readsIn(SETTLE_MS), 1)
    t.equal(await readsIn(POLL_MS, SETTLE_MS), 1, 'in case nobody told')
    t.equal(log.length, 1, 'it is the same key')
    if (isTold) told()
    keys.stop()
    told()
    t.equal(await readsIn(SETTLE_MS, POLL_MS, SETTLE_MS), 0)
    mock.timers.reset()
  }
})
