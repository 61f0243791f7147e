/** The settings that are walked over: where each is on the page, and its values. */
import { readFileSync, writeFileSync } from 'node:fs'
import type { Random } from '../../support/random.ts'
import { NETWORKS } from './air.ts'

export interface Field {
  readonly card: string
  readonly label: string
  /** Names from the configuration down to the value. */
  readonly path: readonly string[]
  readonly kind: 'text' | 'choice' | 'toggle'
  /** Its change is on trial. */
  readonly isTried?: true
  /** Another value, as its control shows it. */
  readonly other: (random: Random, step: number, now: string) => string
  readonly toJson: (shown: string) => unknown
  /** The control's value for a value of the device. */
  readonly shown: (value: unknown) => string
  /** Writes it into the device's own file, as somebody with a shell does. */
  readonly byHand?: (path: (name: string) => string, value: string) => void
}

/** Some are so long that the head of the page grows by a line. */
const PLACES = ['Lobby', 'Salle d’été', 'The large meeting room on the second floor, left', '<b>9</b>']
const ACCESS = ['open', 'pin'] as const
const text = { kind: 'text', toJson: (shown: string) => shown, shown: String } as const
const toggle = {
  kind: 'toggle',
  toJson: (shown: string) => shown === 'true',
  shown: String,
  other: (random: Random) => String(random.chance(0.5)),
} as const
const named = (random: Random, step: number) => `${random.pick(PLACES)} ${step}`.slice(-45)

export const FIELDS: readonly Field[] = [
  {
    ...text,
    card: 'General',
    label: 'Device name',
    path: ['deviceName'],
    other: named,
    byHand: (path, value) => replaceIn(path('etc/machine-info'), /^PRETTY_HOSTNAME=.*$/m, `PRETTY_HOSTNAME="${value}"`),
  },
  {
    ...text,
    card: 'General',
    label: 'Time zone',
    path: ['timezone'],
    kind: 'choice',
    other: random => random.pick(['Europe/London', 'Europe/Brussels', 'America/New_York', 'Asia/Tokyo']),
  },
  {
    ...text,
    card: 'General',
    label: 'Host name',
    path: ['hostname'],
    isTried: true,
    other: (_, step) => `room-${step}`,
  },
  {
    ...text,
    card: 'AirPlay',
    label: 'Name',
    path: ['airplay', 'name'],
    other: (random, step) => named(random, step).replace(/[^ -~]/g, ''),
    byHand: (path, value) => replaceIn(path('etc/uxplayrc'), /^n .*$/m, `n "${value}"`),
  },
  { ...toggle, card: 'AirPlay', label: 'Enabled', path: ['airplay', 'enabled'] },
  {
    card: 'AirPlay',
    label: 'Access',
    path: ['airplay', 'access'],
    kind: 'choice',
    other: random => String(random.below(ACCESS.length)),
    toJson: shown => ACCESS[Number(shown)] ?? 'open',
    shown: value => String(ACCESS.indexOf(value as (typeof ACCESS)[number])),
  },
  {
    card: 'Moderation',
    label: 'Time to decide, in seconds',
    path: ['moderation', 'timeoutS'],
    kind: 'text',
    // Nobody waits in vain: that is no part of the walk.
    other: random => String(500 + random.below(100)),
    toJson: Number,
    shown: String,
  },
  { ...toggle, card: 'Network time', label: 'Enabled', path: ['ntp', 'enabled'] },
]

/** Where it is on the page. */
export function keyOf({ card, label }: Pick<Field, 'card' | 'label'>): string {
  return `${card}/${label}`
}

/** A patch of the configuration with these values. */
export function patchOf(values: readonly (readonly [Field, string])[]): Record<string, unknown> {
  const patch: Record<string, unknown> = {}
  for (const [{ path, toJson }, shown] of values) {
    const [name = '', member] = path
    const value = toJson(shown)
    patch[name] = member === undefined ? value : { ...(patch[name] as object | undefined), [member]: value }
  }
  return patch
}

/** The value that a field shows for a configuration. */
export function shownOf({ path, shown }: Field, system: unknown): string {
  return shown(valueAt(path, system))
}

/** The reverse of `patchOf`. */
export function valuesOf(patch: unknown): readonly (readonly [Field, string])[] {
  return [...FIELDS, NETWORKS]
    .filter(({ path }) => valueAt(path, patch) !== undefined)
    .map(field => [field, shownOf(field, patch)])
}

function valueAt(path: readonly string[], system: unknown): unknown {
  return path.reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], system)
}

function replaceIn(file: string, pattern: RegExp, line: string): void {
  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace(pattern, () => line),
  )
}
