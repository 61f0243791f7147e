import type { Input } from './input.ts'

/** A part of the product that is fed with anything, and an oracle that says how it must respond. */
export interface Target {
  readonly name: string
  /** Inputs to begin with, besides those in its corpus. */
  readonly seeds: readonly (string | Buffer)[]
  /** Words that its inputs may be made of. */
  readonly words: readonly string[]
  readonly maxLength: number
  /** Executions of the short form, in CI. */
  readonly executions: number
  /** @throws {Error} if the oracle is contradicted; anything that the product throws counts as well. */
  run(input: Input): void | Promise<void>
  /** Called for each input that took a new path: the same at its largest. The processor must not take long for it. */
  stretch?(input: Input): void
  /** Releases what it holds. */
  close?(): Promise<void>
}

/** The product did something else than its oracle says. */
export class Finding extends Error {}

/** @throws {Finding} unless it is so; `facts` help to see why. */
export function must(isSo: boolean, what: string, facts: () => unknown = () => undefined): asserts isSo {
  if (!isSo) throw new Finding(`${what}: ${JSON.stringify(facts())}`)
}
