import { reasonOf } from '../../hal/errors.ts'
import { Problem, systemProblem } from '../problem.ts'

/** Returns a problem unchanged, and any other error as a failure of the system: of the storage, or of the check of the bundle. */
export function storageProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  return systemProblem(`The system refused the bundle: ${reasonOf(error)}.`, error)
}

/** Describes the same errors for the log. */
export function describeRefusal(error: unknown): string {
  return error instanceof Problem ? error.message : reasonOf(error)
}
