/** The measurements, as a table, and whether anything grew. */
import type { Sample } from './soak.ts'
import { MIN_SAMPLES, type Trend, trendOf } from './trend.ts'

const MIB = 1024 * 1024

interface Column {
  readonly value: (sample: Sample, before: Sample | undefined) => number
  readonly digits: number
  /**
   * The growth allowed from the first sample after the warm-up to the end, whatever the time; where it is not given, the
   * machine or V8 decides. The bounded caches hold half a MiB of the heap. The resident set has in addition what the
   * allocators keep: three young generations.
   * Gone clients leave nothing behind: of descriptors, handles and their like, one or two may come and go by themselves.
   */
  readonly allowed?: number
}

const COLUMNS: Readonly<Record<string, Column>> = {
  'RSS MiB': { value: ({ rss }) => rss / MIB, digits: 1, allowed: 24 },
  'heap MiB': { value: ({ heap }) => heap / MIB, digits: 2, allowed: 1 },
  'code MiB': { value: ({ code }) => code / MIB, digits: 2 },
  'external MiB': { value: ({ external }) => external / MIB, digits: 2, allowed: 1 },
  handles: { value: ({ handles }) => handles, digits: 0, allowed: 2 },
  descriptors: { value: ({ descriptors }) => descriptors, digits: 0, allowed: 2 },
  watches: { value: ({ watches }) => watches, digits: 0, allowed: 2 },
  timers: { value: ({ timers }) => timers, digits: 0, allowed: 2 },
  // Not the delay of the loop, which other programs on the machine decide.
  'CPU ms/action': {
    value: ({ cpuMs, actions }, before) =>
      (cpuMs - (before?.cpuMs ?? 0)) / Math.max(1, actions - (before?.actions ?? 0)),
    digits: 1,
    allowed: 10,
  },
  'loop p50 ms': { value: ({ loop: [p50] }) => p50, digits: 1 },
  'loop p99 ms': { value: ({ loop: [, p99] }) => p99, digits: 1 },
  'loop max ms': { value: ({ loop: [, , max] }) => max, digits: 0 },
}

export function headLine(): string {
  return ['time', 'actions', ...Object.keys(COLUMNS)].map((name, n) => name.padStart(widthOf(n))).join(' ')
}

export function line(sample: Sample, before: Sample | undefined): string {
  const cells = Object.values(COLUMNS).map(({ value, digits }) => value(sample, before).toFixed(digits))
  return [`${Math.round(sample.atS)} s`, `${sample.actions}`, ...cells]
    .map((cell, n) => cell.padStart(widthOf(n)))
    .join(' ')
}

/** A third is warm-up, of a long run an hour at most: code is compiled, caches fill, and the allocators find their size. */
export function afterWarmUp(samples: readonly Sample[]): readonly Sample[] {
  const [last] = samples.slice(-1)
  const until = Math.min(3600, (last?.atS ?? 0) / 3)
  return samples.filter(({ atS }) => atS > until)
}

export interface Verdict {
  readonly name: string
  readonly trend: Trend
  readonly allowed: number
  readonly text: string
  readonly isGrowing: boolean
}

/** Something grows if it is as good as certain that it has grown by more than is allowed. */
export function verdicts(samples: readonly Sample[]): readonly Verdict[] {
  const steady = afterWarmUp(samples)
  if (steady.length < MIN_SAMPLES) return []
  const times = steady.map(({ atS }) => atS)
  return Object.entries(COLUMNS).flatMap(([name, { value, digits, allowed }]) => {
    if (allowed === undefined) return []
    const trend = trendOf(
      times,
      steady.map((sample, n) => value(sample, steady[n - 1] ?? samples[samples.indexOf(sample) - 1])),
    )
    const [growth, atLeast] = [trend.growth, trend.atLeast].map(number => number.toFixed(digits + 1))
    const text = `${name}: grew by ${growth}, at least by ${atLeast}; ${allowed} allowed`
    return [{ name, trend, allowed, text, isGrowing: trend.atLeast > allowed }]
  })
}

function widthOf(column: number): number {
  return (['time', 'actions', ...Object.keys(COLUMNS)][column]?.length ?? 0) + 2
}
