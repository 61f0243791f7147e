import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import type { Choices, Setting } from '../../hal/setting.ts'
import { isObject, type JsonObject, type JsonValue } from '../../src/json.ts'
import { changedPaths, treeOf } from '../hal/support/tree.ts'
import { DAMAGES, putInPlace } from './damage.ts'
import { Devices, misfits, open, runSteps, type Subject } from './subject.ts'

/** Rules for reading, which every kind of setting keeps: see hal/setting.ts. */
export async function readingContract(t: Test, subject: Subject): Promise<void> {
  const devices = new Devices(t)

  await runSteps(t, {
    'the value of a device and the fallback match the schema': async t => {
      const { setting } = open(subject, devices.receiver())
      t.equal(await setting.unavailable?.(), undefined)
      t.same(misfits(setting, await setting.read()), [])
      t.same(misfits(setting, await setting.fallback()), [])
      const empty = devices.empty()
      await readOrRefused(t, open(subject, empty).setting, 'an empty root')
      t.same(treeOf(empty), {}, 'reading creates nothing')
    },

    'each of its choices is accepted': async t => {
      const { setting } = open(subject, devices.receiver())
      if (!setting.choices) return
      await setting.unavailable?.()
      const value = await setting.read()
      const choices = await setting.choices()
      const tried = choices === undefined ? [] : [...alternatives(value as JsonValue, choices, setting.schema as Node)]
      t.ok(tried.length > 1, `${tried.length} of them`)
      for (const next of tried)
        t.same([...misfits(setting, next), ...((await setting.check?.(next, value)) ?? [])], [], JSON.stringify(next))
      await open(subject, devices.empty()).setting.choices?.()
    },

    'whatever is in place of its files, reading neither hangs nor changes anything': async t => {
      const { setting: sample } = open(subject, devices.receiver())
      // The files may depend on the hardware.
      await sample.unavailable?.()
      for (const path of [...sample.files, ...(sample.sources ?? [])].filter(path => !path.includes('*')))
        for (const damage of DAMAGES) {
          const root = devices.receiver()
          putInPlace(root, path, damage, devices.folder)
          const before = treeOf(root)
          await readOrRefused(t, open(subject, root).setting, `${damage} at ${path}`)
          t.same(changedPaths(before, treeOf(root)), [])
        }
    },
  })
}

interface Node {
  readonly properties?: Readonly<Record<string, Node>>
  readonly additionalProperties?: Node
  readonly type?: string
  readonly 'x-only-with'?: JsonObject
}

/** The value, with each choice in turn; choices that apply only with another value come together, with it. */
function* alternatives(value: JsonValue | undefined, choices: Choices, schema: Node): Iterable<JsonValue> {
  if (Array.isArray(choices)) return yield* schema.type === 'array' ? [[...choices]] : choices
  const members = Object.entries(choices).map(([name, inner]) => {
    const node = schema.properties?.[name] ?? schema.additionalProperties ?? {}
    return { name, inner, node, condition: node['x-only-with'] }
  })
  const previous = isObject(value) ? value : {}
  for (const { name, inner, node, condition } of members)
    for (const next of alternatives(previous[name], inner, node)) {
      const together = members.filter(other => condition !== undefined && isDeepStrictEqual(other.condition, condition))
      const first = together.flatMap(({ name, inner }) => (Array.isArray(inner) ? [[name, inner[0]]] : []))
      yield { ...previous, ...condition, ...Object.fromEntries(first), [name]: next }
    }
}

/** A value that does not match counts as unreadable (hal/setting.ts), and the fallback stands in for it. */
async function readOrRefused(t: Test, setting: Setting, what: string): Promise<void> {
  const error = await setting.read().then(
    () => undefined,
    error => error,
  )
  if (error) t.ok(error instanceof Error && error.constructor.name !== 'TypeError', `${what}: ${error.message}`)
  t.same(misfits(setting, await setting.fallback()), [], `the fallback for ${what}`)
}
