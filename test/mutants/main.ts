// Changes the sources in small ways, one at a time, and lists the changes that no test notices: each must be killed by a
// test, or be listed in equivalent.ts. `make mutants` runs it.
//
//   ONLY=src/auth    these rooms or sources only, separated by commas
//   N=200 SEED=1     as many mutants of each room, at random
//   JOBS=2           processes at a time
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { Random, SEED } from '../support/random.ts'
import { compile, type Program } from './compile.ts'
import { EQUIVALENT, type Equivalent } from './equivalent.ts'
import { Hunt } from './hunt.ts'
import type { Mutant } from './mutate.ts'

const ROOMS = ['src/auth', 'src/events', 'src/sessions', 'hal/transaction', 'hal/files']
const MAX_SHOWN = 100

const { env } = process
const only = env.ONLY ? env.ONLY.split(',') : ROOMS
const { mutants: all, programs, worker } = await compile(only)
const chosen = env.N ? only.flatMap(room => sample(all.filter(inRoom(room)), Number(env.N))) : all
const equivalents = new Map(all.flatMap(mutant => EQUIVALENT.filter(isOf(mutant)).map(entry => [mutant.id, entry])))
const hunt = new Hunt(
  chosen.filter(({ id }) => !equivalents.has(id)),
  { worker, jobs: Number(env.JOBS ?? availableParallelism()), report: line => console.log(line) },
)
// Most mutants are killed by the tests of their own room.
await hunt.run(programs.filter(isNear))
await hunt.run(programs.filter(program => !isNear(program)))
await hunt.end()

const survivors = hunt.alive
for (const mutant of survivors) console.log(`${text(mutant)}${hunt.isCovered(mutant) ? '' : '   (no test reaches it)'}`)
mkdirSync(join(REPOSITORY, 'build/out/mutants'), { recursive: true })
writeFileSync(
  join(REPOSITORY, `build/out/mutants/${only.join('+').replaceAll('/', '-')}.json`),
  JSON.stringify({ survivors, killed: hunt.killed }, undefined, 1),
)

const rows = only.map(room => {
  const count = (mutants: readonly Mutant[]) => mutants.filter(inRoom(room)).length
  const listed = count(chosen.filter(({ id }) => equivalents.has(id)))
  const [total, alive] = [count(chosen) - listed, count(survivors)]
  return { room, total, alive, listed }
})
console.log(`${'room'.padEnd(20)}  mutants   killed survivors  listed   score`)
for (const { room, total, alive, listed } of rows) {
  const figures = [total, total - alive, alive, listed].map((figure, at) =>
    String(figure).padStart([9, 9, 10, 8][at] ?? 0),
  )
  const score = (total === 0 ? 100 : (100 * (total - alive)) / total).toFixed(1).padStart(6)
  console.log(`${room.padEnd(20)}${figures.join('')}${score} %`)
}
const stale = EQUIVALENT.filter(
  entry => only.some(room => entry.file.startsWith(room)) && !all.some(mutant => isOf(mutant)(entry)),
)
for (const { file, code, mutant } of stale)
  console.log(`test/mutants/equivalent.ts lists what is no mutant: ${file}: ${code}: ${mutant}`)
const bad = survivors.length + stale.length
// As tap counts, for test/tiers.sh.
console.log(`# { total: ${hunt.killed.length + bad}, pass: ${hunt.killed.length}, fail: ${bad} }`)
process.exitCode = bad > 0 ? 1 : 0

function inRoom(room: string): (mutant: Mutant) => boolean {
  return ({ file }) => file === room || file.startsWith(`${room}/`)
}

/** Whether a program is a test of a room whose mutants it runs. */
function isNear({ test, files }: Program): boolean {
  const room = test.slice(0, test.lastIndexOf('/'))
  return [...files].some(file => file.startsWith(`src/${room}/`) || file.startsWith(`${room}/`))
}

function isOf(mutant: Mutant): (entry: Equivalent) => boolean {
  return ({ file, code, mutant: change }) => file === mutant.file && code === mutant.code && change === changeOf(mutant)
}

function changeOf({ original, replacement }: Mutant): string {
  return `${oneLine(original)} → ${oneLine(replacement) || 'removed'}`
}

function text(mutant: Mutant): string {
  return `${mutant.file}:${mutant.line}   ${mutant.code}\n    ${changeOf(mutant)}`
}

function oneLine(code: string): string {
  const line = code.replace(/\s+/g, ' ')
  return line.length > MAX_SHOWN ? `${line.slice(0, MAX_SHOWN)} …` : line
}

function sample(mutants: readonly Mutant[], most: number): readonly Mutant[] {
  const random = new Random(SEED)
  return mutants
    .map(mutant => ({ mutant, at: random.next() }))
    .sort((a, b) => a.at - b.at)
    .slice(0, most)
    .map(({ mutant }) => mutant)
}
