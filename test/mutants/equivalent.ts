/** Mutants that no test can kill, each with the reason. `make mutants` fails if one of them is no mutant any more. */

export interface Equivalent {
  readonly file: string
  /** The line as it is in the source, without the space around it. */
  readonly code: string
  /** As `make mutants` prints it. */
  readonly mutant: string
  readonly why: string
}

export const EQUIVALENT: readonly Equivalent[] = []
