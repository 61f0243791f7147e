import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { currentBundle, FLEET_PROGRAM } from '../../build/bundle-file.ts'
import type { Owner } from './support.ts'

const PROGRAM = currentBundle(FLEET_PROGRAM)

/** `receiverd-fleet bridge`, which runs until it is told to stop. */
export class Bridge {
  readonly log: string[] = []
  readonly process: ChildProcess

  constructor(t: Test, owner: Owner, env: NodeJS.ProcessEnv = {}) {
    this.process = spawn(process.execPath, [PROGRAM, 'bridge'], {
      cwd: owner.folder,
      env: { PATH: process.env.PATH, ...env },
      stdio: ['ignore', 'inherit', 'pipe'],
    })
    if (this.process.stderr) createInterface({ input: this.process.stderr }).on('line', line => this.log.push(line))
    t.teardown(() => this.process.kill('SIGKILL'))
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    const exited = once(this.process, 'exit')
    this.process.kill(signal)
    return (await exited)[0]
  }

  count(pattern: RegExp): number {
    return this.log.filter(line => pattern.test(line)).length
  }
}
