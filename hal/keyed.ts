import * as Type from 'typebox/type'

/** An object whose properties are named by the device (interfaces, connectors) and all have one schema. */
export function Keyed<S extends Type.TSchema>(item: S, options: Type.TObjectOptions) {
  return Type.Unsafe<Readonly<Record<string, Type.Static<S>>>>({
    ...options,
    type: 'object',
    additionalProperties: item,
  })
}
