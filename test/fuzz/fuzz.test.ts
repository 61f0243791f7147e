/** The short form of `make fuzz`: every input that was ever worth keeping, and some new ones, the same each time. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { SEED } from '../support/random.ts'
import { buildFuzzer } from './build.ts'

const NAMES = ['connections', 'credentials', 'editors', 'patch', 'readers', 'recover', 'uxplay']

const program = await buildFuzzer(join(t.testdir(), 'fuzz.mjs'))

t.jobs = 2
for (const name of NAMES)
  t.test(name, async t => {
    const env = { ...process.env, SEED: `${SEED}`, SECONDS: undefined, EXECUTIONS: undefined, FOUND: undefined }
    const child = spawn(process.execPath, ['--enable-source-maps', program, name], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const [said, complaints, [status]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ])
    t.equal(status, 0, complaints)
    const { executions, branches } = JSON.parse(said)
    t.comment(said.trim())
    t.ok(executions > 10 && branches > 50, `${executions} executions, ${branches} branches`)
  })
