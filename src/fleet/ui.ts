import { type Person, personAt } from '../cli/person.ts'
import { printable } from '../log.ts'

/** The person who started the program. Results go to stdout; with `--json`, only the document does. */
export interface Ui extends Person {
  /** Prints a line about the progress to stderr. */
  note(line: string): void
  readonly isJson: boolean
  /** Whether a question waits for its answer. */
  readonly isAsking: boolean
}

export function uiAt(process: NodeJS.Process, isJson: boolean): Ui {
  const person = personAt(process)
  let isAsking = false
  return {
    ...person,
    isJson,
    get isAsking() {
      return isAsking
    },
    ask: async question => {
      isAsking = true
      return person.ask(question).finally(() => {
        isAsking = false
      })
    },
    // Replaces the progress that is shown.
    note: line => {
      person.show('')
      process.stderr.write(`${printable(line)}\n`)
    },
    say: line => {
      if (!isJson) person.say(line)
    },
  }
}
