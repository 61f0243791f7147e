/**
 * `SystemStore.patch` on a device's files. A patch is either refused, and not one call changes a file; or it is accepted, and
 * the value read back, also by a service that starts anew, is RFC 7396's merge of the one before and the patch.
 */
import { System } from '../../../hal/os/system.ts'
import { registry } from '../../../hal/registry.ts'
import { isWritable } from '../../../hal/setting.ts'
import { type JsonObject, type JsonValue, parseJson } from '../../../src/json.ts'
import { Problem } from '../../../src/problem.ts'
import type { SystemStore } from '../../../src/system/store.ts'
import { VALUES } from '../../contract/values.ts'
import { intercepted } from '../../hal/support/file-system.ts'
import { treeOf } from '../../hal/support/tree.ts'
import { deviceRoot } from '../../support/device.ts'
import { startStoreOf } from '../../support/store.ts'
import type { Input } from '../input.ts'
import { must, type Target } from '../target.ts'
import { Scope } from './scope.ts'

/** Milliseconds of the processor for each KiB of a patch, or part of one. */
const MS_PER_KIB = 50
const TRIES = 4
/** For a start and a change of all settings at once, whatever their size. */
const CHANGING_MS = 250

interface Device {
  readonly scope: Scope
  readonly root: string
  readonly store: SystemStore
  /** Calls that changed something since it was started. */
  changes: number
}

let device: Device | undefined

async function newDevice(): Promise<Device> {
  const scope = new Scope()
  const root = deviceRoot(scope.test)
  const fs = intercepted(({ changes, proceed }) => {
    if (changes) started.changes++
    return proceed()
  })
  const system = new System(root, { fs })
  const { store } = await startStoreOf(scope.test, system, registry(system))
  const started: Device = { scope, root, store, changes: 0 }
  return started
}

async function restarted(root: string): Promise<string> {
  const scope = new Scope()
  const system = new System(root)
  const { store } = await startStoreOf(scope.test, system, registry(system))
  const { json } = store
  await scope.end()
  return json
}

const settings = registry(new System('/nowhere')).filter(isWritable)

/** A value for a schema: most often one that fits, but not always. */
function valueFor(schema: unknown, good: JsonValue | undefined, input: Input): JsonValue {
  const { type, properties, items, additionalProperties, ...rest } = (schema ?? {}) as Readonly<Record<string, never>>
  const choice = input.below(16)
  if (choice === 0) return null
  if (choice === 1) return input.chunk().toString()
  if (choice === 2) return input.byte() * (input.flag() ? 1 : -0.5)
  if (choice === 3) return input.flag()
  if (choice === 4) return []
  if (choice < 8 && good !== undefined) return good
  if (properties || additionalProperties) {
    const known: string[] = [...Object.keys(properties ?? {}), ...Object.keys((good ?? {}) as object)]
    const members: [string, JsonValue][] = []
    for (let left = input.below(4); left > 0; left--) {
      const name = known.length > 0 && input.below(8) > 0 ? input.pick(known) : input.chunk().toString()
      const member = (properties as Readonly<Record<string, unknown>> | undefined)?.[name] ?? additionalProperties
      members.push([name, valueFor(member, (good as JsonObject | undefined)?.[name], input)])
    }
    return Object.fromEntries(members)
  }
  if (type === 'array') {
    const [first] = Array.isArray(good) ? good : []
    return Array.from({ length: input.below(5) }, () => valueFor(items, first, input))
  }
  if (type === 'boolean') return input.flag()
  if (type === 'integer') return input.byte() * 4
  const allowed: unknown = rest.enum
  return Array.isArray(allowed) ? (input.pick(allowed) as JsonValue) : input.chunk().toString()
}

/** Some of the members of a document, at any depth. */
function partOf(value: JsonValue, input: Input): JsonValue {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const names = Object.keys(value)
  const chosen = names.length === 0 ? [] : Array.from({ length: 1 + input.below(3) }, () => input.pick(names))
  return Object.fromEntries(chosen.map(name => [name, partOf(value[name] as JsonValue, input)]))
}

function patchIn(input: Input, present: JsonObject): JsonValue | undefined {
  const kind = input.below(4)
  if (kind === 3) return partOf(present, input)
  if (kind === 0) {
    try {
      return parseJson(input.rest())
    } catch (error) {
      if (error instanceof SyntaxError) return undefined
      throw error
    }
  }
  const members: [string, JsonValue][] = []
  for (let left = 1 + input.below(3); left > 0; left--) {
    const { name, schema } = input.pick(settings)
    members.push([name, valueFor(schema, VALUES[name]?.[input.below(2)], input)])
  }
  return Object.fromEntries(members)
}

/** RFC 7396 §2, as its pseudo-code has it. */
function merged(target: unknown, patch: unknown): unknown {
  if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) return patch
  const result = new Map(
    target !== null && typeof target === 'object' && !Array.isArray(target) ? Object.entries(target) : [],
  )
  for (const [name, value] of Object.entries(patch))
    if (value === null) result.delete(name)
    else result.set(name, merged(result.get(name), value))
  return Object.fromEntries(result)
}

/** Properties that follow from others, and cannot be set. */
const DERIVED = ['addresses', 'restartPending']

/** The document with its secrets as they are shown, its members in order, and without those that follow from others. */
function shown(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return value.map(item => shown(item))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value)
        .filter(([key]) => !DERIVED.includes(key))
        .sort()
        .map(([key, member]) => [key, shown(member, key)]),
    )
  if (name === 'password' && value !== '') return 'set'
  return name === 'channel' && typeof value === 'string' ? value.replace(/\?.*/s, '?…') : value
}

async function run(input: Input): Promise<void> {
  device ??= await newDevice()
  const patch = patchIn(input, JSON.parse(device.store.json))
  if (patch === undefined) return
  const bytes = Buffer.byteLength(JSON.stringify(patch))
  let leastMs = Number.POSITIVE_INFINITY
  const limitMs = MS_PER_KIB * Math.ceil(bytes / 1024)
  for (let n = 0; n < TRIES; n++) {
    device ??= await newDevice()
    const { changed, ms } = await attempt(device, patch)
    leastMs = Math.min(leastMs, ms - (changed ? CHANGING_MS : 0))
    if (changed) await close()
    if (leastMs <= limitMs) return
  }
  must(false, 'it takes long', () => ({ patch, ms: leastMs, bytes }))
}

/** Where two texts begin to differ. */
function firstDifference(expected: string, found: string) {
  let at = 0
  while (at < expected.length && expected[at] === found[at]) at++
  const from = Math.max(0, at - 100)
  return { expected: expected.slice(from, at + 100), found: found.slice(from, at + 100) }
}

async function attempt(device: Device, patch: JsonValue): Promise<{ readonly changed: boolean; readonly ms: number }> {
  const { store, root } = device
  const before = store.json
  const facts = (more?: unknown) => () => ({ patch, more })
  device.changes = 0
  const start = process.cpuUsage()
  const msSince = () => {
    const { user, system } = process.cpuUsage(start)
    return (user + system) / 1000
  }
  try {
    const { written } = await store.patch(patch, () => undefined)
    const ms = msSince()
    const [expected, found] = [merged(JSON.parse(before), patch), JSON.parse(store.json)].map(value =>
      JSON.stringify(shown(value)),
    )
    must(found === expected, 'something else is read back', facts(firstDifference(expected ?? '', found ?? '')))
    const changed = written.length > 0
    must(changed || device.changes === 0, 'nothing was changed, but something was written', facts(written))
    if (changed) {
      const anew = await restarted(root)
      must(
        anew === store.json,
        'a service that starts anew reads something else',
        facts(firstDifference(store.json, anew)),
      )
    }
    return { changed, ms }
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    const ms = msSince()
    must(error.status === 422, 'it is not refused, but fails', facts(error.message))
    must(error.errors !== undefined && error.errors.length > 0, 'it is refused without a reason', facts(error.message))
    const [was, asked] = [JSON.parse(before), merged(JSON.parse(before), patch)].map(value => JSON.stringify(value))
    // To remove a value that is not there may be refused.
    const removes = JSON.stringify(patch).includes('null')
    must(asked !== was || removes, 'it is refused, but asks for what is there', facts(error.errors))
    must(device.changes === 0 && store.json === before, 'it is refused, but something was changed', facts(error.errors))
    return { changed: false, ms }
  }
}

async function close(): Promise<void> {
  await device?.scope.end()
  device = undefined
}

/** Once: that nothing changes where no call changes anything. */
async function unchanged(): Promise<void> {
  device ??= await newDevice()
  const before = JSON.stringify(treeOf(device.root))
  await attempt(device, { hostname: '', unknown: 1 })
  must(JSON.stringify(treeOf(device.root)) === before, 'the tree is changed')
}

const names = settings.map(({ name }) => name)
let isFirst = true

export const patch: Target = {
  name: 'patch',
  maxLength: 3_072,
  executions: 100,
  seeds: [
    ...names.map((_, at) => Buffer.of(1, 0, at, 0, 5)),
    ...names.map((_, at) => Buffer.of(3, 0, at, 1, at, at >> 1)),
    ...names.map((_, at) => Buffer.of(1, 0, at, 1, 9, 2, 1, 0, 5, 2, 1, 0, 9)),
    ...[
      '{"deviceName":"x","ntp":{"servers":["a.example"]}}',
      '{"hostname":null}',
      '[]',
      '{"network":{"eth0":{"method":"static","address":"192.0.2.9/24"}}}',
      '{"wifi":{"networks":[{"ssid":"Office","password":"set","hidden":true}]}}',
    ].map(text => Buffer.from(`\0${text}`)),
  ],
  words: [
    ...names.map(name => `"${name}":`),
    ...[
      '{',
      '}',
      '[',
      ']',
      ',',
      '"',
      ':',
      'null',
      'true',
      'false',
      '0',
      '-1',
      '1e9',
      '"\\ud800"',
      '"__proto__":{}',
      '"constructor":',
      '"toString":1',
    ],
    ...[
      '"eth0":',
      '"wlan0":',
      '"HDMI-A-1":',
      '"method":"static"',
      '"method":"dhcp"',
      '"address":',
      '"192.0.2.9/24"',
      '"2001:db8::9/64"',
      '"gateway":',
      '"dns":',
      '"servers":',
      '"networks":',
      '"ssid":',
      '"password":',
      '"hidden":',
      '"mode":',
      '"rotation":',
      '"name":',
      '"access":',
      '"channel":',
      '"window":',
      '"country":',
      '"DE"',
    ],
    ...[
      'https://u.example/x?sig=1',
      'set',
      'é',
      '🎬',
      'xn--',
      '.local',
      '\u2028',
      '../',
      '/',
      'UTC',
      'C.UTF-8',
      '12345678',
      '\n',
    ],
  ],
  async run(input) {
    if (isFirst) await unchanged()
    isFirst = false
    await run(input)
  },
  close,
}
