/** A change that could not be undone is undone as soon as that is possible, unless somebody has changed it since. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { type Test, test } from 'tap'
import * as Type from 'typebox/type'
import { HalError } from '../../hal/errors.ts'
import type { Setting } from '../../hal/setting.ts'
import type { JsonObject } from '../../src/json.ts'
import { intercepted, systemError } from '../hal/support/file-system.ts'
import { runningAt } from '../hal/support/setting-device.ts'
import { eventually } from '../support/eventually.ts'
import { plain, startStoreOf } from '../support/store.ts'

/** Milliseconds before the first new attempt. */
const RETRY_MS = 50

/** A setting whose value is a member for each of two files. */
function pairOf(one: Setting, two: Setting): Setting {
  const schema = Type.Object({ one: Type.String(), two: Type.String() })
  return {
    ...one,
    name: 'pair',
    schema,
    files: [...one.files, ...two.files],
    read: async () => ({ one: await one.read(), two: await two.read() }),
    async write(next) {
      const value = next as Type.Static<typeof schema>
      const isChanged = [await one.write?.(value.one), await two.write?.(value.two)]
      return isChanged.includes(true)
    },
  }
}

/**
 * Settings `a` and `b`, which cannot be activated while `failing` has them; `name`, which `embedding` embeds; `secret`, whose
 * value cannot be read; and `pair` with the files `one` and `two`. Files in `full` cannot be changed.
 */
async function startDevice(t: Test, retryMs = RETRY_MS) {
  const root = t.testdir({ a: 'old', b: 'old', name: 'old', embedding: 'old', secret: 'old', one: 'old', two: 'old' })
  const file = (name: string) => readFileSync(`${root}/${name}`, 'utf8')
  const full = new Set<string>()
  const failing = new Set<string>()
  const inUse: Record<string, string> = { a: 'old', b: 'old' }
  /** How often each could not be activated. */
  const tries: Record<string, number> = { a: 0, b: 0 }
  const fs = intercepted(call => {
    if (call.changes && full.has(basename(call.path))) throw systemError('ENOSPC')
    return call.proceed()
  })
  const system = runningAt(root, { fs })
  const activated = (name: string) =>
    plain(system, name, {
      async activate(value, _previous, isRewritten) {
        if (!isRewritten) return
        if (failing.has(name)) tries[name] = (tries[name] ?? 0) + 1
        if (failing.has(name)) throw new HalError('COMMAND_FAILED', 'networkctl did not end within 20 s')
        inUse[name] = String(value)
      },
    })
  const settings = [
    activated('a'),
    activated('b'),
    plain(system, 'name'),
    plain(system, 'embedding', {
      embeds: () => ['name'],
      isEmbeddedStale: async () => file('embedding') !== file('name'),
      write: async () => system.writeAtomic('/embedding', file('name')),
    }),
    plain(system, 'secret', { read: async () => '********' }),
    pairOf(plain(system, 'one'), plain(system, 'two')),
  ]
  const started = await startStoreOf(t, system, settings, { retryMs, fs })
  const { store } = started
  const patch = (value: JsonObject, seconds?: number) => store.patch(value, () => undefined, seconds)
  /** Changes a setting on trial, and undoes that. */
  const tryOut = async (name: string, act: () => void = () => undefined) => {
    await patch({ [name]: 'trial' }, 60)
    act()
    await store.cancel(() => undefined)
  }
  return { ...started, root, full, failing, tries, inUse, patch, file, tryOut }
}

test('a value that could not be put back into use is put back as soon as that is possible', async t => {
  const { failing, inUse, tryOut, file, log, state } = await startDevice(t)
  await tryOut('a', () => failing.add('a'))
  t.equal(file('a'), 'old')
  t.equal(inUse.a, 'trial')
  failing.clear()
  await eventually(() => inUse.a === 'old')
  await eventually(() => log.includes('notice: the change of a is undone now'))
  t.notOk(existsSync(`${state}/journal`))
})

test('a request for the value that the file has puts it into use, too, or is refused', async t => {
  const { failing, inUse, tryOut, patch, state } = await startDevice(t, 60_000)
  await tryOut('a', () => failing.add('a'))
  await t.rejects(patch({ a: 'old' }), { message: /networkctl did not end within 20 s\. Could not be undone: a\./ })
  failing.clear()
  t.same((await patch({ a: 'old' })).written, [], 'it is undone before anything is written')
  t.equal(inUse.a, 'old')
  t.notOk(existsSync(`${state}/journal`))
})

test('a change of one file of a setting does not confirm the value of another that could not be put back', async t => {
  const { store, full, patch, file, state } = await startDevice(t, 60_000)
  await patch({ pair: { one: 'trial' } }, 60)
  full.add('one')
  await store.cancel(() => undefined)
  t.equal(file('one'), 'trial')
  full.clear()
  await patch({ pair: { two: 'new' } })
  t.same(['one', 'two'].map(file), ['old', 'new'], 'it is put back first')
  t.notOk(existsSync(`${state}/journal`))
})

test('a change by hand stays, whatever else is undone in between', async t => {
  const { root, failing, tryOut, file, log } = await startDevice(t, 300)
  await tryOut('a', () => failing.add('a'))
  writeFileSync(`${root}/a`, 'by hand')
  await tryOut('b')
  failing.clear()
  await eventually(() => log.includes('notice: the change of a is not undone, because its files have changed since'))
  t.equal(file('a'), 'by hand')
})

test('a confirmation that fails, and cannot be undone, is undone later', async t => {
  const { store, full, failing, inUse, patch } = await startDevice(t)
  await patch({ a: 'trial' }, 60)
  full.add('journal')
  failing.add('a')
  await t.rejects(
    store.confirm(() => undefined),
    { message: /Could not be undone: a\./ },
  )
  full.clear()
  failing.clear()
  await eventually(() => inUse.a === 'old')
})

test('settings that embed a value follow when it is put back later', async t => {
  const { full, tryOut, file } = await startDevice(t)
  await tryOut('name', () => full.add('name'))
  t.equal(file('embedding'), 'trial')
  full.clear()
  await eventually(() => file('name') === 'old')
  await eventually(() => file('embedding') === 'old')
})

test('a password that is put back later has an event and an ETag of its own', async t => {
  const { store, full, tryOut, file } = await startDevice(t)
  await tryOut('secret', () => full.add('secret'))
  t.equal(file('secret'), 'trial')
  const during = store.topic.latestId
  full.clear()
  await eventually(() => file('secret') === 'old')
  await eventually(() => store.topic.latestId !== during)
})

test('the pauses grow, and start again when something else cannot be undone', async t => {
  const { failing, inUse, tries, tryOut } = await startDevice(t, 200)
  await tryOut('a', () => failing.add('a'))
  await eventually(() => tries.a === 7)
  const began = performance.now()
  await tryOut('b', () => failing.add('b'))
  failing.clear()
  await eventually(() => inUse.b === 'old')
  t.ok(performance.now() - began < 6_000, 'although the pause is 6.4 seconds by now')
})
