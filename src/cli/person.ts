import { UsageError } from '../usage-error.ts'

/** The person who started a command. */
export interface Person {
  say(line: string): void
  /** Resolves with whether the person says yes. */
  ask(question: string): Promise<boolean>
  /** Shows progress on a terminal, in place of the previous line; an empty line when it is over. */
  show(line: string): void
}

/** Moves to the first column, and clears the line (ECMA-48: CR, EL). */
const OVER = '\r\u001b[K'

/** The person at a terminal. Questions go to stderr, so that the output can be redirected. */
export const personAt = ({ stdin, stdout, stderr }: NodeJS.Process): Person => ({
  say: line => void stdout.write(`${line}\n`),
  show: line => void (stderr.isTTY && stderr.write(OVER + line)),
  ask: question =>
    new Promise(resolve => {
      stderr.write(`${question} [y/N] `)
      stdin
        .once('data', answer => {
          stdin.pause()
          resolve(/^y(es)?\s*$/i.test(answer.toString()))
        })
        .once('end', () => resolve(false))
        .resume()
    }),
})

/** @throws {UsageError} if nobody can answer. @param isInputTaken Whether standard input is used for something else. */
export function requireAsking(command: string, isSure: boolean, isInputTaken = false): void {
  if (!isSure && (isInputTaken || !process.stdin.isTTY))
    throw new UsageError(`${command}: no terminal to ask on; --yes does not ask`)
}
