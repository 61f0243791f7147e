/** The person who started a command. */
export interface Person {
  say(line: string): void
  /** Whether they say yes. */
  ask(question: string): Promise<boolean>
}

/** The person at a terminal. Questions go to stderr, so that what is said can be redirected. */
export const personAt = ({ stdin, stdout, stderr }: NodeJS.Process): Person => ({
  say: line => void stdout.write(`${line}\n`),
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
