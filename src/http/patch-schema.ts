import type { TSchema } from 'typebox/type'

/**
 * Returns the schema of a JSON Merge Patch (RFC 7396) for a schema: no object member is required, at any depth. Arrays are
 * replaced whole. A named object `Thing` becomes `ThingPatch`.
 */
export function patchOf(schema: TSchema): TSchema {
  return partial(schema) as TSchema
}

function partial(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null || !('type' in schema) || schema.type !== 'object') return schema
  const { required: _, $id, ...rest } = schema as Readonly<Record<string, unknown>>
  const inside = (name: string) => {
    const members = Object.entries((rest[name] ?? {}) as object).map(([key, value]) => [key, partial(value)])
    return rest[name] === undefined ? {} : { [name]: Object.fromEntries(members) }
  }
  return {
    ...rest,
    ...(typeof $id === 'string' && { $id: `${$id}Patch` }),
    ...inside('properties'),
    ...inside('patternProperties'),
    additionalProperties: partial(rest.additionalProperties),
  }
}
