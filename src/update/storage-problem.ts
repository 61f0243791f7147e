import { reasonOf } from '../../hal/errors.ts'
import { Problem, systemProblem } from '../problem.ts'

/** A problem as it is; any other failure as that of the storage, or of what checks the bundle. */
export function storageProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  return systemProblem(`The system refused the bundle: ${reasonOf(error)}.`, error)
}

/** The same for the log. */
export function describeRefusal(error: unknown): string {
  return error instanceof Problem ? error.message : reasonOf(error)
}
