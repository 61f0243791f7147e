/** The texts of the page go by the labels that people see, and not by the values that the API has. */
import { test } from 'tap'
import { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { helpOf, valueLabel } from '../../src/page/labels.ts'
import type { Schema } from '../../src/page/schema.ts'

/** Every schema in a schema, with the names that lead there. */
function* below(schema: Schema, path: readonly string[]): Generator<[path: readonly string[], schema: Schema]> {
  yield [path, schema]
  for (const [name, inner] of Object.entries(schema.properties ?? {})) yield* below(inner, [...path, name])
  if (typeof schema.additionalProperties === 'object') yield* below(schema.additionalProperties, [...path, 'NAME'])
}

test('no help speaks of a value by another name than its control', async t => {
  for (const { name, schema } of registry(new System('/nowhere'))) {
    const all = [...below(schema as Schema, [name])]
    const unseen = all.flatMap(([path, { enum: values = [] }]) =>
      values.filter(value => typeof value === 'string' && valueLabel(path.at(-1) ?? '', value) !== value),
    )
    for (const [path, inner] of all)
      for (const value of unseen)
        t.notMatch(helpOf(path, inner) ?? '', new RegExp(`\\b(for|with|or|and|\\() ?${value}\\b`, 'i'), path.join('.'))
  }
})

test('the page has texts only for settings that exist', async t => {
  const texts = await import('../../src/page/texts.ts')
  const known = registry(new System('/nowhere')).flatMap(({ name, schema }) =>
    [...below(schema as Schema, [name])].map(([path]) => `${path[0]}.${path.at(-1)}`),
  )
  for (const key of Object.keys(texts.helps)) t.ok(known.includes(key), key)
})
