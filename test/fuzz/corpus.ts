import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** An input as a line that a person can read: a string in JSON, with a character for each byte. */
export function lineOf(input: Buffer): string {
  return JSON.stringify(input.toString('latin1'))
}

export function inputOf(line: string): Buffer {
  return Buffer.from(JSON.parse(line), 'latin1')
}

/** The inputs in a file, one on each line; none if there is no file. */
export function readCorpus(path: string): readonly Buffer[] {
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8').split('\n').filter(Boolean).map(inputOf)
}

export function writeCorpus(path: string, inputs: readonly Buffer[]): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, inputs.map(input => `${lineOf(input)}\n`).join(''))
}
