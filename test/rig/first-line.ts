import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'

/** The first line that a process prints. @throws with what it said on stderr where it ends without one, or is too slow. */
export function firstLine(child: ChildProcess, withinMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let errors = ''
    child.stderr?.setEncoding('utf8').on('data', chunk => {
      errors += chunk
    })
    const fail = (reason: string) => reject(new Error(`${child.spawnargs.join(' ')} ${reason}: ${errors}`))
    const timer = setTimeout(() => fail(`said nothing within ${withinMs} ms`), withinMs)
    child.once('error', error => fail(error.message))
    child.once('close', status => {
      clearTimeout(timer)
      fail(`ended with status ${status}`)
    })
    if (child.stdout)
      createInterface({ input: child.stdout }).once('line', line => {
        clearTimeout(timer)
        resolve(line)
      })
  })
}
