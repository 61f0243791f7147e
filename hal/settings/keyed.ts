import { isDeepStrictEqual } from 'node:util'
import * as Type from 'typebox/type'
import type { Violation } from '../setting.ts'

/** An object whose properties are named by the device (interfaces, connectors) and all have one schema. */
export function Keyed<S extends Type.TSchema>(item: S, options: Type.TObjectOptions) {
  return Type.Unsafe<Readonly<Record<string, Type.Static<S>>>>({
    ...options,
    type: 'object',
    additionalProperties: item,
  })
}

/** A refusal for each of these properties that is not as it was. */
export function whyReadOnly<T>(names: readonly (keyof T & string)[], next: T, previous: T): Violation[] {
  return names
    .filter(name => !isDeepStrictEqual(next[name], previous[name]))
    .map(name => ({ pointer: `/${name}`, detail: 'read-only' }))
}
