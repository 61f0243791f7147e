import { isDeepStrictEqual } from 'node:util'
import { isOfSystem, reasonOf } from '../../hal/errors.ts'
import { masked } from '../../hal/format/bundle-url.ts'
import { KEPT } from '../../hal/secret.ts'
import { isWritable } from '../../hal/setting.ts'
import type { Change } from '../../hal/transaction/transaction.ts'
import { isObject, type JsonObject, type JsonValue, pointerStep } from '../json.ts'
import { type FieldError, systemProblem } from '../problem.ts'
import {
  illFormedStrings,
  memberOf,
  nameErrors,
  propertyOf,
  refusal,
  schemaErrors,
  unknownProperty,
} from '../validate.ts'
import { mergePatch } from './merge-patch.ts'
import type { SettingState, Snapshot } from './snapshot.ts'

const INVALID = 'invalid-configuration'

/**
 * Returns the changes that a JSON Merge Patch asks for, in the order of the registry: to the settings that it names, and to
 * the settings that embed one of them.
 * @param left The settings that may have another value in use than the one that was read: they are written again.
 * @throws {Problem} 422 with everything that was refused.
 */
export async function planChanges(
  patch: JsonValue,
  snapshot: Snapshot,
  left: readonly string[],
): Promise<readonly Change[]> {
  if (!isObject(patch))
    throw refusal(INVALID, [{ pointer: '', detail: 'must be a JSON object with the properties to change' }])
  const illFormed = illFormedStrings(patch)
  if (illFormed.length > 0) throw refusal(INVALID, illFormed)

  const errors: FieldError[] = []
  const changes = new Map<SettingState, Change>()
  for (const [name, part] of Object.entries(patch)) {
    const pointer = pointerStep(name)
    const entry = snapshot.find(name)
    if (entry?.missing !== undefined || !entry) {
      const detail = entry
        ? `not available on this device: ${entry.missing}`
        : unknownProperty(
            name,
            snapshot.available.map(({ name }) => name),
          )
      errors.push({ pointer, detail })
      continue
    }
    const { setting, value: previous } = entry
    const next = mergePatch(previous, part)
    const isUnsure = (entry.isBroken || left.includes(name)) && isWritable(setting)
    if (isDeepStrictEqual(next, previous) && !isUnsure) continue
    // The members that the patch does not name would be replaced by those of the fallback.
    if (entry.isUnread && isWritable(setting) && !isDeepStrictEqual(mergePatch(null, part), next))
      throw systemProblem(
        `${name} cannot be changed while it cannot be read: ${entry.fallbackReason}. Nothing has changed; try again later.`,
        undefined,
      )
    const found = await check(entry, next, pointer)
    errors.push(...found)
    if (found.length === 0) changes.set(entry, { setting, previous, next })
  }
  if (errors.length > 0) throw refusal(INVALID, errors)
  for (const change of changesOf(snapshot.embedding(changes.keys())))
    if (!changes.has(change.entry)) changes.set(change.entry, change)
  return snapshot.available.flatMap(entry => changes.get(entry) ?? [])
}

/** Returns changes that write the same values again, to files that embed another setting's value. */
export function changesOf(entries: readonly SettingState[]): readonly (Change & { readonly entry: SettingState })[] {
  return entries.map(entry => ({ entry, setting: entry.setting, previous: entry.value, next: entry.value }))
}

/** Returns the values that the properties in a patch would have after these changes. */
export function previewOf(changes: readonly Change[], patch: JsonValue): JsonObject {
  const named = changes.filter(({ setting }) => isObject(patch) && Object.hasOwn(patch, setting.name))
  return Object.fromEntries(
    named.map(({ setting, next }) => [setting.name, withoutSecrets(setting.schema, next as JsonValue)]),
  )
}

/** Masks secrets as when the value is read back: a response must not contain a secret that a client sent. */
function withoutSecrets(schema: unknown, value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map((item, at) => withoutSecrets(memberOf(schema, at), item))
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [name, withoutSecrets(memberOf(schema, name), member)]),
    )
  if (typeof value === 'string' && propertyOf(schema, 'x-secret-query') === true) return masked(value)
  return propertyOf(schema, 'format') === 'password' && value !== '' ? KEPT : value
}

async function check(
  { setting, value }: SettingState,
  next: JsonValue,
  pointer: string,
): Promise<readonly FieldError[]> {
  if (!isWritable(setting)) return [{ pointer, detail: 'read-only' }]
  if (next === null) return [{ pointer, detail: 'cannot be removed' }]
  const names = nameErrors(setting.schema, next, value, pointer)
  const errors = names.length > 0 ? names : schemaErrors(setting.schema, next, pointer)
  if (errors.length > 0) return errors
  const violations = (await setting.check?.(next, value).catch(error => notChecked(setting.name, error))) ?? []
  return violations.map(violation => ({ pointer: pointer + violation.pointer, detail: violation.detail }))
}

/** A check may read the device, which can fail. Any other error is a bug. */
function notChecked(name: string, error: unknown): never {
  if (!isOfSystem(error)) throw error
  throw systemProblem(`The system could not be read to check ${name}: ${reasonOf(error)}. Nothing has changed.`, error)
}
