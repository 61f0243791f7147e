/** Priorities of sd-daemon(3): journald takes the `<N>` at the start of a line as the priority of the record. */
const PRIORITY = { error: 3, warning: 4, notice: 5, info: 6 } as const

export type Level = keyof typeof PRIORITY
export type Log = (level: Level, message: string) => void

/** Characters that would end the line, control a terminal or reorder the text. */
const UNPRINTABLE = /[\p{C}\u2028\u2029]/gu
const MAX_MESSAGE = 1024

/** Returns a log that writes one line per record. */
export function lineLog(write: (line: string) => void): Log {
  return (level, message) => write(`<${PRIORITY[level]}>${printable(message.slice(0, MAX_MESSAGE))}\n`)
}

/** Logs a warning about something that is retried repeatedly only if its text changes, or after it succeeded in between. */
export class Complaint {
  readonly #log: Log
  #last: string | undefined

  constructor(log: Log) {
    this.#log = log
  }

  say(message: string): void {
    if (message !== this.#last) this.#log('warning', message)
    this.#last = message
  }

  end(): void {
    this.#last = undefined
  }
}

/** Replaces each character that would do more than be shown. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, '\u{fffd}')
}
