import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'

/** Resolves with the first line of a process's stdout. @throws with its stderr if it exits first, or on timeout. */
export function firstLine(child: ChildProcess, withinMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let errors = ''
    child.stderr?.setEncoding('utf8').on('data', chunk => {
      errors += chunk
    })
    const fail = (reason: string) => reject(new Error(`${child.spawnargs.join(' ')} ${reason}: ${errors}`))
    const timer = setTimeout(() => fail(`printed nothing within ${withinMs} ms`), withinMs)
    child.once('error', error => fail(error.message))
    child.once('close', status => {
      clearTimeout(timer)
      fail(`exited with status ${status}`)
    })
    if (child.stdout)
      createInterface({ input: child.stdout }).once('line', line => {
        clearTimeout(timer)
        resolve(line)
      })
  })
}
