import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { System } from '../../hal/os/system.ts'
import { eventually } from '../support/eventually.ts'
import { plain, startStoreOf } from '../support/store.ts'

/** Settings `a` and `b`. Reading `a` waits for `free` once `hold` was called. */
async function startTrials(t: Test) {
  const root = t.testdir({ a: 'old', b: 'old' })
  const system = new System(root)
  let gate: Promise<void> | undefined
  let free: () => void = () => undefined
  const device = { isHeld: false }
  const a = plain(system, 'a', {
    async read() {
      device.isHeld = gate !== undefined
      await gate
      return (await system.readText('/a')) ?? ''
    },
  })
  const started = await startStoreOf(t, system, [a, plain(system, 'b')])
  const { store } = started
  return {
    ...started,
    file: (name: string) => readFileSync(`${root}/${name}`, 'utf8'),
    told: () => String(store.topic.log.array(0).bytes),
    patch: (value: Record<string, string>, seconds?: number) => store.patch(value, () => undefined, seconds),
    /** Has the store read, and wait for it. */
    async hold() {
      gate = new Promise(resolve => {
        free = resolve
      })
      writeFileSync(`${root}/a`, 'foreign')
      await eventually(() => device.isHeld)
    },
    free: () => free(),
  }
}

test('a change confirmed in time is kept, however late its turn comes, and so is the one after it', async t => {
  const { store, file, told, patch, hold, free } = await startTrials(t)
  await patch({ b: 'kept' }, 3)
  await hold()
  const confirmed = store.confirm(() => undefined)
  const next = patch({ b: 'next' }, 60)
  await wait(3_200)
  free()
  await confirmed
  await next
  await wait(50)
  t.notMatch(told(), /system.reverted/)
  t.equal(file('b'), 'next')
  await store.confirm(() => undefined)
  t.equal(file('b'), 'next')
})

test('a deadline that comes before the confirmation has its turn undoes, and the confirmation is refused', async t => {
  const { store, file, told, patch, hold, free } = await startTrials(t)
  await patch({ b: 'trial' }, 0.2)
  await hold()
  await wait(300)
  const confirmed = store.confirm(() => undefined)
  free()
  await t.rejects(confirmed, { message: /No change awaits/ })
  t.equal(file('b'), 'old')
  t.match(told(), /"reason":"not confirmed","properties":\["b"\]/)
})

test('a confirmation that is not allowed when its turn comes keeps nothing', async t => {
  const { store, file, patch } = await startTrials(t)
  await patch({ b: 'trial' }, 0.2)
  const refuse = () => {
    throw new Error('key replaced')
  }
  await t.rejects(store.confirm(refuse), { message: 'key replaced' })
  await eventually(() => file('b') === 'old')
})

test('a trial that begins while the store stops is left to the next start', async t => {
  const { store, state, file, patch, hold, free } = await startTrials(t)
  await hold()
  const patched = patch({ b: 'trial' }, 0.2)
  const stopped = store.stop()
  free()
  await patched
  await stopped
  await wait(400)
  t.equal(file('b'), 'trial')
  t.ok(existsSync(`${state}/journal`))
})

test('values count as on trial until they are kept, or undone', async t => {
  const { store, patch } = await startTrials(t)
  const seen = new Set<boolean>()
  store.topic.log.onAppend(() => seen.add(store.isOnTrial))
  const told = () => {
    const all = [...seen]
    seen.clear()
    return all
  }
  await patch({ a: 'tried' }, 60)
  t.strictSame(told(), [true], 'while it is made')
  await store.cancel(() => undefined)
  t.strictSame(told(), [true], 'while it is undone')
  t.notOk(store.isOnTrial)
  await patch({ a: 'kept' }, 60)
  await store.confirm(() => undefined)
  t.notOk(store.isOnTrial)
  told()
  await patch({ a: 'made' })
  t.strictSame(told(), [false])
})
