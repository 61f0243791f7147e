/** The output of `busctl --json=short` for de.pengutronix.rauc.Installer, and the messages of RAUC 1.13. */
import { Check } from 'typebox/schema'
import * as Type from 'typebox/type'
import { HalError } from '../errors.ts'

/** A slot, which is one of the two places for a system. */
export interface Slot {
  /** RAUC's name, such as `rootfs.0`. */
  readonly name: string
  /** The boot loader's name for it, such as `A`. */
  readonly bootName: string
  /** The version of the bundle that was last installed there; undefined if none was. */
  readonly version: string | undefined
  /** `bad`: it must not be booted, or an installation there did not finish. `empty`: nothing was ever installed there. */
  readonly state: 'good' | 'bad' | 'empty'
  /** Whether the last installation there finished: its last step tells the boot loader to start the slot. */
  readonly isActivated: boolean
}

/** A bundle, as it describes itself. */
export interface BundleInfo {
  readonly version: string
  readonly compatible: string
}

/** The same with the paths of its images, which RAUC does not check. */
interface Contents extends BundleInfo {
  readonly files: readonly string[]
}

/** Why a bundle is refused. */
export type Refusal = 'bundle-signature' | 'bundle-compatible' | 'bundle-damaged' | 'bundle-too-old'

const optional = Type.Optional(Type.String())
const Slots = Type.Tuple([
  Type.Array(
    Type.Tuple([
      Type.String(),
      Type.Object({
        bootname: Type.String(),
        'boot-status': optional,
        status: optional,
        'bundle.version': optional,
        'installed.timestamp': optional,
        'activated.timestamp': optional,
      }),
    ]),
  ),
])
const Bundle = Type.Tuple([
  Type.Object({
    update: Type.Object({ version: optional, compatible: Type.String() }),
    images: Type.Optional(Type.Array(Type.Object({ filename: optional }))),
  }),
])
const Text = Type.Tuple([Type.String()])
const Progress = Type.Tuple([Type.Number(), Type.String(), Type.Number()])

/** Parses the answer to `GetSlotStatus`. As all of these functions, @throws {HalError} if the output is unknown. */
export function slotsIn(output: string): readonly Slot[] {
  const [slots] = parse(Slots, output)
  return slots.map(([name, values]) => {
    const { bootname: bootName, status, 'bundle.version': version, 'boot-status': bootStatus } = values
    const isWhole = status === 'ok'
    const isGood = isWhole && bootStatus === 'good'
    const { 'installed.timestamp': installed = '', 'activated.timestamp': activated = '' } = values
    const state = status === undefined ? 'empty' : isGood ? 'good' : 'bad'
    return { name, bootName, version, state, isActivated: isWhole && activated >= installed }
  })
}

/** The answer to `InspectBundle`. */
export function bundleIn(output: string): Contents {
  const [{ update, images = [] }] = parse(Bundle, output)
  const { version = '', compatible } = update
  return { version, compatible, files: images.flatMap(({ filename = [] }) => filename) }
}

/** The answer to a method that returns one string. */
export function textIn(output: string): string {
  return parse(Text, output)[0]
}

/** A property that is a string. */
export function propertyIn(line: string | undefined): string {
  return parse(Type.String(), line ?? '')
}

/** The percentage in the property `Progress`. */
export function percentIn(line: string | undefined): number {
  return parse(Progress, line ?? '')[0]
}

/** Why a bundle was refused, from the message of an error; undefined if the error is another one. */
export function refusalIn(message: string): Refusal | undefined {
  if (/signature verification failed/i.test(message)) return 'bundle-signature'
  if (/compatible mismatch/i.test(message)) return 'bundle-compatible'
  if (/version mismatch/i.test(message)) return 'bundle-too-old'
  // dm-verity answers a read of changed data with an error.
  const damaged = /invalid bundle format|bundle format '.*' not allowed|error reading .*input\/output error/i
  return damaged.test(message) ? 'bundle-damaged' : undefined
}

function parse<T extends Type.TSchema>(schema: T, output: string): Type.Static<T> {
  let value: unknown
  try {
    value = plain(JSON.parse(output))
  } catch {
    throw new HalError('UNREADABLE', 'busctl did not print JSON')
  }
  if (Check(schema, value)) return value
  throw new HalError('UNREADABLE', 'RAUC answered in an unknown form')
}

/** A D-Bus value without the types that busctl puts around variants. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  if ('type' in value && typeof value.type === 'string' && 'data' in value) return plain(value.data)
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]))
}
