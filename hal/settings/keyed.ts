import * as Type from 'typebox/type'
import type { Violation } from '../setting.ts'

/** An object whose property names come from the device (interfaces, connectors), all with the same schema. */
export function Keyed<S extends Type.TSchema>(item: S, options: Type.TObjectOptions) {
  return Type.Unsafe<Readonly<Record<string, Type.Static<S>>>>({
    ...options,
    type: 'object',
    additionalProperties: item,
  })
}

/** Returns the member with an external name, without inherited ones: an interface may be called `constructor`. */
export function ownMember<T>(members: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return members && Object.hasOwn(members, name) ? members[name] : undefined
}

/** Prefixes violations of a member with its pointer. Names of interfaces and connectors need no escapes (RFC 6901). */
export function atMember(name: string, violations: readonly Violation[]): readonly Violation[] {
  return violations.map(({ pointer, detail }) => ({ pointer: `/${name}${pointer}`, detail }))
}
