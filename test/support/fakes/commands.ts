import { HalError } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/os/command.ts'

/** Runs each command with its fake. Commands without a fake are not installed. */
export function commands(fakes: Readonly<Record<string, Run>>): Run {
  return async argv => {
    const fake = fakes[argv[0]]
    if (!fake) throw new HalError('COMMAND_FAILED', `${argv[0]} is not installed`)
    return fake(argv)
  }
}
