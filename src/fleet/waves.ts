import type { Member } from './access.ts'
import { atOnce } from './at-once.ts'
import { named, type Outcome, outcomeOf, type Result } from './outcome.ts'
import type { Ui } from './ui.ts'

/** Sizes of waves; the last one repeats, and is infinite for `rest`. */
export type Waves = readonly number[]

export interface RollOutOptions {
  readonly waves: Waves
  /** How many devices at once. */
  readonly limit: number
  /** Whether to go on with the next wave after a failure. */
  readonly isKeptGoing: boolean
  /** Once the person aborts it, no further device is started. */
  readonly stop: AbortSignal
  /** Rejects with a `CommandError` once the person does not wait for the devices under way either. */
  readonly halted: Promise<never>
  readonly ui: Ui
}

/** `2,10,rest` as sizes; undefined if it is not of this form. */
export function parseWaves(text: string): Waves | undefined {
  const parts = text.split(',').map(part => part.trim())
  const sizes = parts.map(part =>
    part === 'rest' ? Number.POSITIVE_INFINITY : /^\d{1,6}$/.test(part) ? Number(part) : 0,
  )
  const isRestLast = sizes.slice(0, -1).every(Number.isFinite)
  return sizes.every(size => size > 0) && isRestLast ? sizes : undefined
}

/** Divides items into waves. */
export function inWaves<T>(items: readonly T[], sizes: Waves): readonly (readonly T[])[] {
  const waves: (readonly T[])[] = []
  for (let from = 0; from < items.length; ) {
    const size = sizes[Math.min(waves.length, sizes.length - 1)] ?? items.length
    waves.push(items.slice(from, from + size))
    from += size
  }
  return waves
}

/**
 * Does something with each device, wave by wave. A wave ends when each of its devices is done or has failed. After a wave with
 * a failure, no other starts, unless `isKeptGoing`.
 */
export async function rollOut(
  members: readonly Member[],
  options: RollOutOptions,
  act: (member: Member) => Promise<Result>,
): Promise<readonly Outcome[]> {
  const { waves, isKeptGoing, stop, ui } = options
  const all = inWaves(members, waves)
  const outcomes: Outcome[] = []
  let isBad = false
  for (const [index, wave] of all.entries()) {
    if ((isBad && !isKeptGoing) || stop.aborted) {
      outcomes.push(...wave.map(member => named(member, { state: 'not begun' })))
      continue
    }
    const title = `Wave ${index + 1} of ${all.length}, ${countOf(wave.length)}`
    ui.show(`${title} …`)
    const whole = await eachOf(wave, options, done => `${title}: ${done} done`, act)
    const failures = whole.filter(({ state }) => state === 'failed').length
    isBad ||= failures > 0
    if (all.length > 1) ui.note(`${title}: ${failures === 0 ? 'good' : `${failures} failed`}`)
    outcomes.push(...whole)
  }
  if (outcomes.some(({ state }) => state === 'not begun'))
    ui.note(
      stop.aborted
        ? 'Interrupted.'
        : 'Stopped after a wave with failures; give the command again to go on, or with --keep-going to go past them.',
    )
  return outcomes
}

/**
 * Does something with each device, several at once, and names those that fail.
 * @param progress Returns what to show when `done` devices are done.
 */
export async function eachOf(
  members: readonly Member[],
  { limit, stop, halted, ui }: Pick<RollOutOptions, 'limit' | 'stop' | 'halted' | 'ui'>,
  progress: (done: number) => string,
  act: (member: Member) => Promise<Result>,
): Promise<readonly Outcome[]> {
  let done = 0
  const outcomes = await atOnce(
    members,
    limit,
    async member => {
      const outcome = await outcomeOf(member, act, halted)
      ui.show(progress(++done))
      if (outcome.state === 'failed') ui.note(`${outcome.device}: ${outcome.reason}`)
      return outcome
    },
    stop,
  )
  ui.show('')
  return members.map((member, at) => outcomes[at] ?? named(member, { state: 'not begun' }))
}

export function countOf(devices: number): string {
  return `${devices} device${devices === 1 ? '' : 's'}`
}
