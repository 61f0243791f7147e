/**
 * Fuzzing that is guided by coverage: an input which takes a path that none took before is kept, and others are made from it.
 * A path is new if a branch is taken for the first time, or in another order of magnitude of times.
 */
import { reasonOf } from '../../hal/errors.ts'
import { Random } from '../support/random.ts'
import { COMPARE, HITS } from './counters.ts'
import { Input } from './input.ts'
import { mutate } from './mutate.ts'
import type { Target } from './target.ts'

/** Comparisons that are remembered, and the longest text of one. */
const MAX_COMPARED = 512
const MAX_COMPARED_LENGTH = 48
/** Milliseconds of the processor for an input at its largest. */
const STRETCHED_MS = 1_000
const TRIES = 3
/** Executions that may make a finding smaller. */
const MAX_REDUCTIONS = 400
/** The inputs found last are most often where something is left to be found. */
const RECENT = 32

interface Globals {
  readonly [HITS]: Uint32Array
  [COMPARE]: ((one: unknown, other: unknown) => boolean) | undefined
}
const globals = globalThis as unknown as Globals

export interface FuzzOptions {
  readonly seed: number
  /** Ends after so many executions, or so many milliseconds. */
  readonly executions: number
  readonly ms: number
  readonly corpus: readonly Buffer[]
  /** Called before each execution. */
  readonly begins?: (input: Buffer) => void
}

export interface Fuzzed {
  readonly executions: number
  /** Branches that were taken. */
  readonly branches: number
  /** The inputs that took a new path, the given ones first. */
  readonly paths: readonly Buffer[]
  /** How many of them were made here. */
  readonly newPaths: number
  /** The input that contradicts the oracle, as small as it became, and how. */
  readonly finding?: { readonly input: Buffer; readonly reason: string }
}

export async function fuzz(target: Target, options: FuzzOptions): Promise<Fuzzed> {
  const random = new Random(options.seed)
  const seen = new Uint8Array(globals[HITS].length)
  const paths: Buffer[] = []
  const compared: (readonly [string, string])[] = []
  const words = target.words.map(word => Buffer.from(word))
  const ends = performance.now() + options.ms
  let executions = 0
  let newPaths = 0
  globals[COMPARE] = (one, other) => {
    if (typeof one === 'string' && typeof other === 'string') remember(compared, random, one, other)
    return false
  }

  /** Why the oracle is contradicted; undefined if it is not. */
  const execute = async (bytes: Buffer): Promise<string | undefined> => {
    executions++
    options.begins?.(bytes)
    globals[HITS].fill(0)
    try {
      await target.run(new Input(bytes))
      return undefined
    } catch (error) {
      return error instanceof Error ? (error.stack ?? error.message) : reasonOf(error)
    }
  }
  const attempt = async (bytes: Buffer): Promise<string | undefined> => {
    const reason = await execute(bytes)
    if (reason !== undefined) return reason
    if (!isNew(globals[HITS], seen)) return undefined
    paths.push(bytes)
    return stretched(target, bytes)
  }
  const found = async (input: Buffer, reason: string): Promise<Fuzzed> => {
    const smaller = await reduce(input, headline(reason), execute)
    return { ...result(), finding: { input: smaller, reason: (await execute(smaller)) ?? reason } }
  }
  const result = (): Fuzzed => ({
    executions,
    newPaths,
    paths,
    branches: seen.reduce((sum, bits) => sum + Number(bits > 0), 0),
  })

  try {
    for (const bytes of [...target.seeds.map(seed => Buffer.from(seed)), ...options.corpus]) {
      const reason = await attempt(bytes)
      if (reason !== undefined) return await found(bytes, reason)
    }
    if (paths.length === 0) paths.push(Buffer.of())
    const given = paths.length
    while (executions < options.executions && performance.now() < ends) {
      const parent = random.pick(random.chance(0.3) ? paths.slice(-RECENT) : paths)
      const bytes = mutate(parent, random, { others: paths, words, compared, maxLength: target.maxLength })
      const reason = await attempt(bytes)
      newPaths = paths.length - given
      if (reason !== undefined) return await found(bytes, reason)
    }
    return result()
  } finally {
    globals[COMPARE] = undefined
  }
}

function remember(compared: (readonly [string, string])[], random: Random, one: string, other: string): void {
  // Most comparisons are those of single characters.
  if (one.length < 2 || other.length < 2 || one.length > MAX_COMPARED_LENGTH || other.length > MAX_COMPARED_LENGTH)
    return
  if (compared.length < MAX_COMPARED) compared.push([one, other])
  else if (random.chance(0.02)) compared[random.below(MAX_COMPARED)] = [one, other]
}

/** Marks the branches that were taken, by the order of magnitude of how often. @returns whether any mark is new. */
function isNew(hits: Uint32Array, seen: Uint8Array): boolean {
  let isNews = false
  for (let at = 0; at < hits.length; at++) {
    const count = hits[at] ?? 0
    if (count === 0) continue
    const bit = count === 1 ? 1 : count < 4 ? 2 : count < 16 ? 4 : count < 64 ? 8 : 16
    const before = seen[at] ?? 0
    if (before & bit) continue
    seen[at] = before | bit
    isNews = true
  }
  return isNews
}

/** By processor time, the least of some tries: the machine may be busy with something else. */
function stretched(target: Target, bytes: Buffer): string | undefined {
  if (!target.stretch) return undefined
  let least = Number.POSITIVE_INFINITY
  for (let n = 0; n < TRIES && least > STRETCHED_MS; n++) {
    const start = process.cpuUsage()
    target.stretch(new Input(bytes))
    const { user, system } = process.cpuUsage(start)
    least = Math.min(least, (user + system) / 1000)
  }
  return least > STRETCHED_MS ? `Slow: at its largest it takes ${Math.round(least)} ms of the processor` : undefined
}

/** The first line up to its facts: the same mistake has the same. */
function headline(reason: string): string {
  return reason.split('\n', 1)[0]?.split(': ', 2).join(': ') ?? ''
}

/** The input without all that can be left out with the same result. */
async function reduce(
  input: Buffer,
  result: string,
  execute: (bytes: Buffer) => Promise<string | undefined>,
): Promise<Buffer> {
  let bytes = input
  let left = MAX_REDUCTIONS
  for (let size = bytes.length >> 1; size > 0; size >>= 1)
    for (let at = 0; at < bytes.length && left > 0; left--) {
      const shorter = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + size)])
      if (headline((await execute(shorter)) ?? '') === result) bytes = shorter
      else at += size
    }
  return bytes
}
