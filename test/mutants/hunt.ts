/** Finds the mutants that each test reaches, and kills. */
import type { Program } from './compile.ts'
import type { Mutant } from './mutate.ts'
import { type Ended, MutantProcess } from './process.ts'
import type { Request } from './worker.ts'

/** Runs after which a process is replaced: killed mutants must not leave too much behind in it. */
const MAX_RUNS = 150
/** Kills after which it is checked that the process is still good. */
const MAX_UNSURE = 20
/** A test that takes more is not run: it measures, or floods. */
const MAX_TEST_CPU_MS = 1_500
const NOTHING = { cpuMs: 0, wallMs: 0 }

interface Usual {
  readonly cpuMs: number
  readonly wallMs: number
}

/** A program without mutants: its time, and which of its tests reach which mutants. */
interface Coverage {
  readonly program: Program
  readonly tests: readonly Usual[]
  /** The places of the tests that are run with mutants. */
  readonly usable: readonly number[]
  /** By mutant: the places of the tests that reach it. */
  readonly reaching: ReadonlyMap<number, readonly number[]>
}

export interface Killed {
  readonly mutant: Mutant
  /** The test file, and its test or how it ended. */
  readonly by: string
}

export interface HuntOptions {
  readonly worker: string
  /** Processes at a time. */
  readonly jobs: number
  readonly report: (line: string) => void
}

export class Hunt {
  readonly #options: HuntOptions
  readonly #alive: Map<number, Mutant>
  readonly #covered = new Set<number>()
  readonly #lanes: readonly Lane[]
  readonly killed: Killed[] = []

  constructor(mutants: readonly Mutant[], options: HuntOptions) {
    this.#options = options
    this.#lanes = Array.from({ length: options.jobs }, () => new Lane(options.worker))
    this.#alive = new Map(mutants.map(mutant => [mutant.id, mutant]))
  }

  get alive(): readonly Mutant[] {
    return [...this.#alive.values()]
  }

  isCovered(mutant: Mutant): boolean {
    return this.#covered.has(mutant.id)
  }

  /** Runs these programs with the mutants that are alive, the quickest first. */
  async run(programs: readonly Program[]): Promise<void> {
    const wanted = programs.filter(({ files }) => this.alive.some(({ file }) => files.has(file)))
    const coverages: Coverage[] = []
    await this.#inLanes(wanted, async (program, lane) => {
      const coverage = await this.#cover(program, lane)
      if (coverage) coverages.push(coverage)
    })
    coverages.sort((a, b) => sum(a.tests).cpuMs - sum(b.tests).cpuMs)
    for (const { reaching } of coverages) for (const id of reaching.keys()) this.#covered.add(id)
    for (const coverage of coverages) await this.#runProgram(coverage)
  }

  async end(): Promise<void> {
    await Promise.all(this.#lanes.map(lane => lane.end()))
  }

  /** Mutants that each test of a program reaches alone, with all off; undefined if the program cannot be loaded. */
  async #cover(program: Program, lane: Lane): Promise<Coverage | undefined> {
    const { path, test } = program
    const { report } = this.#options
    const loaded = await lane.run({ path, mutant: undefined, only: [] })
    if (typeof loaded === 'string' || loaded.failure !== undefined) {
      report(`${test} is left out: without mutants, it ${failureOf(loaded)}`)
      return undefined
    }
    const tests: Usual[] = []
    const usable: number[] = []
    const reaching = new Map<number, number[]>()
    for (let at = 0; at < loaded.tests; at++) {
      const alone = await lane.run({ path, mutant: undefined, only: [at] })
      const isGood = typeof alone !== 'string' && alone.failure === undefined
      if (!isGood) report(`${test}: test ${at + 1} is left out: without mutants, it ${failureOf(alone)}`)
      tests.push(isGood ? { cpuMs: alone.cpuMs, wallMs: alone.wallMs } : NOTHING)
      if (!isGood || alone.cpuMs > MAX_TEST_CPU_MS) continue
      usable.push(at)
      for (const id of alone.reached) reaching.set(id, [...(reaching.get(id) ?? []), at])
    }
    // A mutant reached while a program loads may matter to each of its tests.
    for (const id of loaded.loaded) reaching.set(id, usable)
    return { program, tests, usable, reaching }
  }

  async #runProgram({ program, tests, usable, reaching }: Coverage): Promise<void> {
    const mutants = this.alive.filter(({ id }) => reaching.has(id))
    if (mutants.length === 0) return
    const began = performance.now()
    const { path } = program
    const requestOf = (mutant: number | undefined, only: readonly number[]) =>
      [{ path, mutant, only }, sum(only.map(at => tests[at] ?? NOTHING))] as const
    const cost = (at: number) => (tests[at] ?? NOTHING).cpuMs
    const request = ({ id }: Mutant) =>
      requestOf(
        id,
        (reaching.get(id) ?? []).toSorted((a, b) => cost(a) - cost(b)),
      )
    const kill = (mutant: Mutant, ended: Ended) => {
      this.#alive.delete(mutant.id)
      this.killed.push({ mutant, by: `${program.test}: ${failureOf(ended)}` })
    }
    const suspects: Mutant[] = []
    const queue = [...mutants]
    await this.#inLanes(this.#lanes, async (_, lane) => {
      let unsure: [Mutant, Ended][] = []
      // Kills count if the program still passes without a mutant after them, in the same process.
      const settle = async () => {
        if (unsure.length === 0) return
        const isGood = !isFailure(await lane.run(...requestOf(undefined, usable)))
        if (isGood) for (const [mutant, ended] of unsure) kill(mutant, ended)
        else {
          suspects.push(...unsure.map(([mutant]) => mutant))
          await lane.end()
        }
        unsure = []
      }
      for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
        const ended = await lane.run(...request(mutant))
        if (typeof ended === 'string') {
          suspects.push(mutant, ...unsure.map(([mutant]) => mutant))
          unsure = []
        } else if (isFailure(ended)) unsure.push([mutant, ended])
        if (unsure.length >= MAX_UNSURE) await settle()
      }
      await settle()
    })
    // Each has a process of its own.
    await this.#inLanes(suspects, async (mutant, lane) => {
      await lane.end()
      const ended = await lane.run(...request(mutant))
      if (isFailure(ended)) kill(mutant, ended)
      await lane.end()
    })
    const seconds = Math.round((performance.now() - began) / 1000)
    const killed = mutants.length - mutants.filter(({ id }) => this.#alive.has(id)).length
    this.#options.report(`${program.test}: ${killed} of ${mutants.length} killed, ${seconds} s`)
  }

  /** Does this for all items, some at a time: each lane takes the next one, so that a slow one holds up one lane. */
  async #inLanes<T>(items: readonly T[], act: (item: T, lane: Lane) => Promise<void>): Promise<void> {
    const queue = [...items]
    await Promise.all(
      this.#lanes.map(async lane => {
        for (;;) {
          if (queue.length === 0) return
          await act(queue.shift() as T, lane)
        }
      }),
    )
  }
}

/** A process at a time. */
class Lane {
  readonly #worker: string
  #process: MutantProcess | undefined

  constructor(worker: string) {
    this.#worker = worker
  }

  async run(request: Request, usual?: Usual): Promise<Ended> {
    this.#process ??= new MutantProcess(this.#worker)
    const ended = await this.#process.run(request, usual)
    if (typeof ended === 'string' || this.#process.runs >= MAX_RUNS) await this.end()
    return ended
  }

  async end(): Promise<void> {
    await this.#process?.end()
    this.#process = undefined
  }
}

function isFailure(ended: Ended): boolean {
  return typeof ended === 'string' || ended.failure !== undefined
}

function failureOf(ended: Ended): string {
  return typeof ended === 'string' ? ended : `fails: ${ended.failure ?? 'nothing'}`
}

function sum(tests: readonly Usual[]): Usual {
  return {
    cpuMs: tests.reduce((total, { cpuMs }) => total + cpuMs, 0),
    wallMs: tests.reduce((total, { wallMs }) => total + wallMs, 0),
  }
}
