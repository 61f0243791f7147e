import { isObject, type JsonObject, type JsonValue } from '../json.ts'

/**
 * Applies a JSON Merge Patch to a value (RFC 7396 §2). The result is built from entries, so that a member named `__proto__`
 * is an ordinary member.
 */
export function mergePatch(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch
  const members = new Map(Object.entries(isObject(target) ? target : {}))
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) members.delete(name)
    else members.set(name, mergePatch(members.get(name), value))
  }
  return Object.fromEntries(members) as JsonObject
}
