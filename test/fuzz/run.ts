/** `make fuzz`: each target for SECONDS, or the one in TARGET, and a table. Findings are kept in build/out/fuzz. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { buildFuzzer, OUT } from './build.ts'
import { TARGETS } from './targets/targets.ts'

/** Of each target, unless SECONDS says otherwise. */
const DEFAULT_S = 300

const { TARGET, SECONDS = String(DEFAULT_S), SEED = String(Date.now() % 1_000_000) } = process.env
const names = TARGETS.map(({ name }) => name).filter(name => !TARGET || name === TARGET)
if (names.length === 0) {
  console.error(`there is no target ${TARGET}; the targets are: ${TARGETS.map(({ name }) => name).join(', ')}`)
  process.exit(2)
}

const program = await buildFuzzer()
const rows: string[][] = []
let failed = 0
for (const name of names) {
  console.log(`== ${name}, for ${SECONDS} s, SEED=${SEED}`)
  const child = spawn(process.execPath, ['--enable-source-maps', program, name], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, SECONDS, SEED, FOUND: join(OUT, 'corpus') },
  })
  let last = ''
  for await (const line of createInterface({ input: child.stdout })) last = line
  const status =
    child.exitCode ?? (await new Promise<number>(resolve => child.once('close', code => resolve(code ?? 1))))
  if (status !== 0) failed++
  const { executions = '', newPaths = '', branches = '' } = last.startsWith('{') ? JSON.parse(last) : {}
  rows.push([name, executions, newPaths, branches, status === 0 ? '' : 'a finding: see above'].map(String))
}
for (const [name = '', ...columns] of [['target', 'executions', 'new paths', 'branches'], ...rows])
  console.log(name.padEnd(14) + columns.map(column => column.padStart(12)).join(''))
// As tap does, for test/tiers.sh.
console.log(`# { total: ${rows.length}, pass: ${rows.length - failed}, fail: ${failed} }`)
process.exit(failed > 0 ? 1 : 0)
