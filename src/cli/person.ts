import { UsageError } from '../usage-error.ts'

/** The person who started a command. */
export interface Person {
  say(line: string): void
  /** Whether they say yes. */
  ask(question: string): Promise<boolean>
  /** Shows how far something is, in place of what was shown before; nothing, when it is over. Only a terminal has a place for it. */
  show(line: string): void
}

/** To the first column, and clear the line (ECMA-48: CR, EL). */
const OVER = '\r\u001b[K'

/** The person at a terminal. Questions go to stderr, so that what is said can be redirected. */
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

/** @throws {UsageError} if nobody can answer. @param isInputTaken Whether standard input is something else. */
export function requireAsking(command: string, isSure: boolean, isInputTaken = false): void {
  if (!isSure && (isInputTaken || !process.stdin.isTTY))
    throw new UsageError(`${command}: no terminal to ask on; --yes does not ask`)
}
