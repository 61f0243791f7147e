import type { Subject } from '../subjects/subject.ts'

/** How much of everything. */
export interface Size {
  readonly rounds: number
  /** Clients. */
  readonly few: number
  readonly many: number
  /** Of the events that a full run publishes. */
  readonly share: number
  /** How long requests are sent. */
  readonly seconds: number
}

export const FULL: Size = { rounds: 3, few: 1_000, many: 10_000, share: 1, seconds: 4 }
/** Enough to notice figures that are much worse, not slightly so. */
export const SHORT: Size = { rounds: 1, few: 1_000, many: 3_000, share: 0.2, seconds: 1 }

/** By name: readings of a subject. */
export type Figures = Readonly<Record<string, number>>

/** Work on a subject, done once a round. */
export interface Run {
  readonly name: string
  /** The Debian packages without which it is left out. */
  readonly missing?: string | undefined
  readonly measure: (size: Size) => Promise<Figures>
}

export interface Scenario {
  /** Taken in turn. */
  readonly runs: readonly Run[]
  /** Left out of the short form. */
  readonly isLong?: boolean
}

/** The same done to each subject. */
export function scenario<S extends Subject>(
  subjects: readonly S[],
  measure: (subject: S, size: Size) => Promise<Figures>,
): Scenario {
  return {
    runs: subjects.map(subject => ({
      name: subject.name,
      missing: subject.missing,
      measure: size => measure(subject, size),
    })),
  }
}

/** Milliseconds for a server to come to rest. */
export const SETTLE_MS = 2_000
export const KIB = 1024
export const MIB = KIB * KIB
