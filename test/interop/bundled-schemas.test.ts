/** A schema means the same in the bundle as in the tests that do not use the bundle. */
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { build } from 'esbuild'
import t from 'tap'
import * as Type from 'typebox/type'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { SERVICE } from '../../build/esbuild-options.ts'
import type { JsonValue } from '../../src/json.ts'
import { schemaErrors } from '../../src/validate.ts'
import { temporaryFolder } from '../support/folder.ts'

type Validator = typeof import('../../src/validate.ts')

/** Each with a value that it refuses. */
const CONSTRAINTS: Readonly<Record<string, readonly [schema: object, value: JsonValue]>> = {
  allOf: [{ allOf: [{ type: 'string' }, { maxLength: 2 }] }, 'abc'],
  contains: [{ contains: { const: 1 } }, [2]],
  dependentRequired: [{ dependentRequired: { a: ['b'] } }, { a: 1 }],
  exclusiveMaximum: [{ exclusiveMaximum: 3 }, 3],
  exclusiveMinimum: [{ exclusiveMinimum: 3 }, 3],
  format: [{ format: 'ipv4' }, '192.0.2.256'],
  if: [{ if: { const: 1 }, else: false }, 2],
  maxProperties: [{ maxProperties: 1 }, { a: 1, b: 2 }],
  minItems: [{ minItems: 1 }, []],
  minProperties: [{ minProperties: 1 }, {}],
  multipleOf: [{ multipleOf: 5 }, 7],
  not: [{ not: { type: 'null' } }, null],
  oneOf: [{ oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 3],
  patternProperties: [{ patternProperties: { '^a': { type: 'number' } } }, { ab: 'c' }],
  prefixItems: [{ prefixItems: [{ type: 'number' }] }, ['a']],
  propertyNames: [{ propertyNames: { maxLength: 1 } }, { ab: 1 }],
  ref: [{ $defs: { small: { maximum: 1 } }, $ref: '#/$defs/small' }, 2],
  uniqueItems: [{ uniqueItems: true }, [1, 1]],
}

async function bundledValidator(): Promise<Validator> {
  const { outputFiles } = await build({
    ...SERVICE,
    absWorkingDir: REPOSITORY,
    entryPoints: ['src/validate.ts'],
  })
  const file = join(temporaryFolder(t), 'validate.cjs')
  writeFileSync(file, outputFiles.map(({ text }) => text).join(''))
  return createRequire(import.meta.url)(file)
}

const bundled = await bundledValidator()

t.test('the bundle enforces every constraint', async t => {
  for (const [keyword, [schema, value]] of Object.entries(CONSTRAINTS)) {
    const errors = schemaErrors(Type.Unsafe(schema), value, '')
    t.not(errors.length, 0, keyword)
    t.same(bundled.schemaErrors(Type.Unsafe(schema), value, ''), errors, `${keyword} in the bundle`)
  }
})
