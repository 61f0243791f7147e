/**
 * The process that runs a program again and again, each time with another mutant. It loads the program afresh for each
 * run, so that nothing but the libraries and the process is shared with the run before.
 */
import { pathToFileURL } from 'node:url'
import { Test, type TestOpts } from 'tap'

/** A request to the process. */
export interface Request {
  readonly path: string
  /** Undefined for the sources as they are. */
  readonly mutant: number | undefined
  /** The tests to run, by their places in the program, in this order; undefined for all. */
  readonly only: readonly number[] | undefined
}

export interface Answer {
  /** Undefined if all passed. */
  readonly failure: string | undefined
  /** How many tests the program has. */
  readonly tests: number
  readonly cpuMs: number
  readonly wallMs: number
  /** The mutants that were reached while the program was loaded, and while it ran. */
  readonly loaded: readonly number[]
  readonly reached: readonly number[]
}

interface Run {
  readonly mutant: number | undefined
  /** The tests of the program, which begin once it is loaded. */
  readonly tests: { readonly name: string; readonly options: object; readonly body: Body }[]
  /** The mutants that are reached. */
  hits: Set<number>
}

type Body = (t: Test) => unknown

let current: Run | undefined
let runs = 0

/** Called by compiled programs. */
const mutation = {
  /** Returns the switch of the run that begins. Its leftovers do not see the mutants of others. */
  begin(): (mutant: number) => boolean {
    const run = present()
    return mutant => {
      run.hits.add(mutant)
      return mutant === run.mutant
    }
  },

  test(name: string, ...rest: readonly (object | Body)[]): void {
    const body = rest.at(-1) as Body
    present().tests.push({ name, options: rest.length > 1 ? (rest[0] ?? {}) : {}, body })
  },
}
Object.assign(globalThis, { mutation })

function present(): Run {
  if (!current) throw new Error('there is no run')
  return current
}

async function answer({ path, mutant, only }: Request): Promise<Answer> {
  const loaded = new Set<number>()
  const reached = new Set<number>()
  const run: Run = { mutant, tests: [], hits: loaded }
  current = run
  const cpu = process.cpuUsage()
  const began = performance.now()
  const failure = await import(`${pathToFileURL(path).href}?run=${runs++}`).then(
    () => {
      run.hits = reached
      return failureOf(run, only ?? [...run.tests.keys()])
    },
    error => `cannot be loaded: ${error}`,
  )
  const { user, system } = process.cpuUsage(cpu)
  return {
    failure,
    tests: run.tests.length,
    cpuMs: (user + system) / 1000,
    wallMs: performance.now() - began,
    loaded: [...loaded],
    reached: [...reached],
  }
}

/** Runs tests in this order, until one of them fails. @returns its name; undefined if all passed. */
async function failureOf(run: Run, order: readonly number[]): Promise<string | undefined> {
  const root: Test = new Test({ name: 'mutant', timeout: 0 } as TestOpts)
  root.resume()
  for (const at of order) {
    const test = run.tests[at]
    const result = test && (await root.test(test.name, test.options, test.body))
    if (!result?.ok) return test?.name ?? `there is no test ${at}`
  }
  return undefined
}

process.once('disconnect', () => process.exit())
process.on('message', (request: Request) => {
  answer(request).then(
    answered => process.send?.(answered),
    error => {
      throw error
    },
  )
})
