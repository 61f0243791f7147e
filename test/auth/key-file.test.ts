/** The file of the API key, and those beside it, without a service. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import {
  generateKey,
  isMarkedUnused,
  isOnlyKey,
  markUnused,
  readKey,
  rememberKey,
  removeKey,
  replaceKey,
  requireNewKey,
} from '../../src/auth/key-file.ts'
import { intercepted, systemError } from '../hal/support/file-system.ts'
import { temporaryFolder } from '../support/folder.ts'

const [FIRST, SECOND, THIRD] = ['first-key_0001.of~room.4', 'second-key_002.of~room.4', 'third-key_0003.of~room.4']

type Code = Parameters<typeof systemError>[0] | undefined

/** A state directory in which writes of the key fail as `failure` says. */
function stateOf(t: Test) {
  const folder = temporaryFolder(t)
  /** Once a key is in place, `afterRename` is thrown, and then `atOnce` is `next`. */
  const failure: { atOnce?: Code; afterRename?: Code; next?: Code } = {}
  let isInPlace = false
  const fs = intercepted(({ name, path, proceed }) => {
    const { atOnce, afterRename, next } = failure
    if (atOnce && path.includes('.api-key.receiverd-')) throw systemError(atOnce)
    if (afterRename && isInPlace) {
      Object.assign(failure, { atOnce: next, afterRename: undefined })
      throw systemError(afterRename)
    }
    const result = proceed()
    isInPlace = name === 'rename' && path.endsWith('/api-key')
    return result
  })
  return { folder, failure, file: join(folder, 'api-key'), state: new Files(folder, fs) }
}

t.test('the end of its line may be missing from a generated key, or be that of Windows; others need it', async t => {
  const { state, file } = stateOf(t)
  const generated = generateKey()
  for (const [text, key] of [
    [`${generated}\n`, generated],
    [generated, generated],
    [`${generated}\r\n`, generated],
    [`${FIRST}\n`, FIRST],
  ] as const) {
    writeFileSync(file, text)
    t.equal(await readKey(state), key, JSON.stringify(text))
  }
  for (const text of [FIRST, `${FIRST}\r\n`, `${generated}A`, '', '\n']) {
    writeFileSync(file, text)
    const refusal = { code: 'UNREADABLE', message: 'the file does not contain an API key' }
    await t.rejects(readKey(state), refusal, JSON.stringify(text))
  }
})

t.test('a key has at least 12 different characters', async t => {
  const { state } = stateOf(t)
  t.equal(await requireNewKey(state, 'abcdefghijkl'.repeat(2)), undefined)
  const refusal = { message: 'must have at least 12 different characters' }
  await t.rejects(requireNewKey(state, 'abcdefghijk'.repeat(2)), refusal)
})

t.test('where there is no key, a replacement generates one, and it is the first', async t => {
  const { state, failure, folder } = stateOf(t)
  failure.afterRename = 'EIO'
  await t.rejects(replaceKey(state, undefined), { code: 'EIO' })
  t.match(await readKey(state), /^[\w-]{43}$/, 'in place, although not durable')
  const key = await replaceKey(state, undefined)
  t.match(key, /^[\w-]{43}$/)
  t.equal(await readKey(state), key)
  t.strictSame(readdirSync(folder), ['api-key'])
  t.equal(await isOnlyKey(state, key), true)
})

t.test('the key in force can be chosen again and again, also a weak one, and is not a former one then', async t => {
  for (const key of [FIRST, 'x'.repeat(22)]) {
    const { state } = stateOf(t)
    for (let n = 0; n < 3; n++) t.equal(await replaceKey(state, key, key), key)
    t.equal(await isOnlyKey(state, key), true)
  }
})

t.test('a key that is replaced is refused from then on, unless it was never stored', async t => {
  for (const [isStored, outcome] of [
    [undefined, 'must not be a key that this device had before'],
    [true, 'must not be a key that this device had before'],
    [false, FIRST],
  ] as const) {
    const { state } = stateOf(t)
    await replaceKey(state, FIRST, SECOND, isStored)
    t.equal(await isOnlyKey(state, SECOND), isStored === false)
    t.equal(await replaceKey(state, SECOND, FIRST).catch(error => error.message), outcome)
  }
})

t.test('a replacement that fails says why, and counts for nothing however often it is tried', async t => {
  const { state, failure } = stateOf(t)
  await replaceKey(state, undefined, FIRST)
  Object.assign(failure, { afterRename: 'EIO', next: 'EROFS' })
  await t.rejects(replaceKey(state, FIRST, SECOND), { code: 'EIO' }, 'and not that it could not be taken back')
  t.equal(await isOnlyKey(state, FIRST), true)
  failure.atOnce = undefined
  await replaceKey(state, FIRST, SECOND)
  t.equal(await isOnlyKey(state, SECOND), false)
  failure.atOnce = 'EROFS'
  for (let n = 0; n < 20; n++) await t.rejects(replaceKey(state, SECOND, THIRD), { code: 'EROFS' })
  t.equal(await isOnlyKey(state, SECOND), false, 'the first was another one')
  failure.atOnce = undefined
  await t.rejects(replaceKey(state, SECOND, FIRST), /had before/, 'and is still remembered')
})

t.test('once removed, a key and the former ones are unknown', async t => {
  const { state, folder } = stateOf(t)
  await replaceKey(state, FIRST, SECOND)
  await removeKey(state)
  t.strictSame(readdirSync(folder), [])
  t.equal(await readKey(state), undefined)
  t.equal(await replaceKey(state, undefined, FIRST), FIRST)
})

t.test('without a record that it is unused, a key is not', async t => {
  const { state, folder } = stateOf(t)
  t.equal(await isMarkedUnused(state, FIRST), false)
  await markUnused(state, FIRST)
  t.equal(await isMarkedUnused(state, FIRST), true)
  t.equal(await isMarkedUnused(state, SECOND), false)
  t.match(readFileSync(join(folder, 'api-key.unused'), 'utf8'), /^[\w-]{22} [\w-]{43}\n$/, 'salted and hashed')
})

t.test('a key that cannot be read is the only one if there is no former one', async t => {
  const { state } = stateOf(t)
  t.equal(await isOnlyKey(state, undefined), true)
  await rememberKey(state, FIRST)
  t.equal(await isOnlyKey(state, undefined), false)
})
