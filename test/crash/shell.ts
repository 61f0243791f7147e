/**
 * A shell that starts programs for this process: the kernel copies the memory map of the process that starts one, and this
 * one's is so large that a start takes more time than the program.
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import t from 'tap'

const shell = spawn('sh', ['-f'], { stdio: ['pipe', 'pipe', 'inherit'] })
const lines = createInterface(shell.stdout)[Symbol.asyncIterator]()
t.teardown(() => shell.stdin.end())

/** Runs a program to its end, one at a time. Rejects if its status is above `most`. */
export async function inShell(argv: readonly string[], most = 0): Promise<void> {
  const command = argv.map(word => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
  // Its output, as words of one line, follows its status.
  shell.stdin.write(`output=$(${command} </dev/null 2>&1); echo $? $output\n`)
  const { value, done } = await lines.next()
  if (done) throw new Error(`the shell ended at: ${command}`)
  if (Number.parseInt(value, 10) > most) throw new Error(`${command}: ${value}`)
}
