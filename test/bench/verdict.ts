import { median } from './median.ts'
import type { Target } from './targets.ts'

/** By scenario, subject and name: one figure a round. */
export type AllFigures = Record<string, Record<string, Record<string, number[]>>>

export function record(
  figures: AllFigures,
  [scenario, subject, name]: readonly [string, string, string],
  value: number,
) {
  figures[scenario] ??= {}
  const bySubject = figures[scenario]
  bySubject[subject] ??= {}
  const byName = bySubject[subject]
  byName[name] ??= []
  byName[name].push(value)
}

export interface Verdict {
  readonly what: string
  readonly scenario: string
  readonly peer: string | undefined
  readonly ours: number
  readonly theirs: number
  readonly ratio: number
  readonly atMost: number | undefined
  readonly atLeast: number | undefined
  readonly met: boolean
  /** The factor by which the ratio misses the level reached: 1 or less if it does not. */
  readonly excess: number
}

/** How far the short form may miss the level reached: more is not noise. */
const TOLERANCE = 2

/** A verdict on each target whose figures there are. */
export function judge(targets: readonly Target[], figures: AllFigures): readonly Verdict[] {
  return targets.flatMap(target => verdictOn(target, figures) ?? [])
}

/** The lack of a ratio is one, too. */
export function isRegression({ excess }: Verdict): boolean {
  return !(excess <= TOLERANCE)
}

/** The ratio is taken in each round, and then the median: whatever else the machine did then, it did to both. */
function verdictOn(target: Target, figures: AllFigures): Verdict | undefined {
  const { what, scenario, figure, peer, to = figure, atMost, atLeast, reached } = target
  const bySubject = figures[scenario] ?? {}
  const ours = bySubject.receiverd?.[figure]
  const isAbsolute = peer === undefined && to === figure
  const theirs = isAbsolute ? ours?.map(() => 1) : bySubject[peer ?? 'receiverd']?.[to]
  if (!ours || !theirs) return undefined
  const ratio = median(ours.map((value, round) => value / (theirs[round] ?? Number.NaN)).filter(Number.isFinite))
  const excess = (bound: number) => (atMost === undefined ? bound / ratio : ratio / bound)
  const wanted = atMost ?? atLeast
  return {
    what,
    scenario,
    peer,
    ours: median(ours),
    theirs: median(theirs),
    ratio,
    atMost,
    atLeast,
    met: excess(wanted) <= 1,
    excess: excess(reached ?? wanted),
  }
}
