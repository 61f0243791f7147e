import { errorCode, reasonOf } from '../../hal/errors.ts'
import { Problem } from '../problem.ts'

/** A problem as it is; any other failure as that of the storage, or of what checks the bundle. */
export function storageProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  const kind = errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT' ? 'no-space' : 'system-refused'
  return new Problem(kind, `The system refused the bundle: ${reasonOf(error)}.`, { cause: error })
}

/** The same for the log. */
export function describeRefusal(error: unknown): string {
  return error instanceof Problem ? error.message : reasonOf(error)
}
