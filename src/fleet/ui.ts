import { type Person, personAt } from '../cli/person.ts'
import { printable } from '../log.ts'

/** The person who started the program. Results go to stdout; with `--json`, only the document does. */
export interface Ui extends Person {
  /** A line about how it goes, for stderr. */
  note(line: string): void
  readonly isJson: boolean
}

export function uiAt(process: NodeJS.Process, isJson: boolean): Ui {
  const person = personAt(process)
  return {
    ...person,
    isJson,
    // In place of what is shown.
    note: line => {
      person.show('')
      process.stderr.write(`${printable(line)}\n`)
    },
    say: line => {
      if (!isJson) person.say(line)
    },
  }
}
