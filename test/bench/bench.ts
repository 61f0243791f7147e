// Measures the service beside its alternatives, and against its targets. `make bench` runs it.
//
//   ONLY=sse,get   these scenarios only
//   SHORT=1        a few minutes; fails if a target, or the level reached, is missed by more than a factor of two
//   ROUNDS=1       instead of three
//   NODE=path      another Node for the service and its peers
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { has } from './cores.ts'
import { exitOnSignals } from './lifetime.ts'
import { median } from './median.ts'
import { FULL, type Run, SHORT, type Size } from './scenarios/scenario.ts'
import { scenarios } from './scenarios/scenarios.ts'
import { compilePeers } from './subjects/node-peers.ts'
import { receiverd } from './subjects/receiverd.ts'
import { DISK, NODE, OUT } from './subjects/subject.ts'
import { digits, table } from './table.ts'
import { targets } from './targets.ts'
import { type AllFigures, isRegression, judge, record, type Verdict } from './verdict.ts'

/** By command, the Debian packages that bring it. */
const NEEDED = { taskset: 'util-linux', wrk: 'wrk', cc: 'gcc libc6-dev' } as const
const PROGRAMS = ['load', 'limit', 'fsyncs']

interface Failure {
  readonly round: string
  readonly scenario: string
  readonly subject: string
  readonly message: string
}

const { env } = process
const isShort = Boolean(env.SHORT)
const size: Size = { ...(isShort ? SHORT : FULL), ...(env.ROUNDS && { rounds: Number(env.ROUNDS) }) }
const figures: AllFigures = {}
const failures: Failure[] = []

exitOnSignals()
const names = chosen()
await prepare()
const loadBefore = loadavg()
let verdicts = await measureAll(names, size.rounds)
// Slow once may be noise: that scenario is measured twice again, and the median counts.
const again = new Set(verdicts.filter(isRegression).map(({ scenario }) => scenario))
if (isShort && again.size > 0) verdicts = await measureAll([...again], 2)
report()
const node = execFileSync(NODE, ['--version'], { encoding: 'utf8' }).trim()
const machine = { cpu: cpus()[0]?.model, cores: cpus().length, loadBefore, loadAfter: loadavg(), node }
writeFileSync('build/out/bench.json', `${JSON.stringify({ machine, size, figures, verdicts, failures }, null, 2)}\n`)
const regressions = isShort ? verdicts.filter(isRegression) : []
for (const { what, ratio } of regressions)
  console.error(`${what}: ${digits(ratio)} is more than a factor of two from what was reached`)
if (failures.length + regressions.length > 0) process.exitCode = 1

function chosen(): readonly string[] {
  if (!env.ONLY) return Object.keys(scenarios).filter(name => !(isShort && scenarios[name]?.isLong))
  const only = env.ONLY.split(',')
  const unknown = only.find(name => !Object.hasOwn(scenarios, name))
  if (unknown === undefined) return only
  console.error(`ONLY=${unknown}: the scenarios are ${Object.keys(scenarios).join(', ')}`)
  process.exit(2)
}

async function prepare(): Promise<void> {
  mkdirSync(DISK, { recursive: true })
  const missing = new Set(Object.keys(NEEDED).filter(command => !has(command)))
  for (const [command, packages] of Object.entries(NEEDED))
    if (missing.has(command)) console.error(`${command} is not installed: apt-get install ${packages}`)
  if (missing.has('cc') || missing.has('taskset')) process.exit(1)
  for (const program of PROGRAMS)
    execFileSync('cc', ['-O2', '-Wall', '-o', join(OUT, program), `test/bench/${program}.c`], { stdio: 'inherit' })
  await compilePeers()
  // Once, for the body that the peers answer with.
  await (await receiverd.start()).stop()
}

async function measureAll(names: readonly string[], rounds: number): Promise<readonly Verdict[]> {
  for (let round = 1; round <= rounds; round++)
    for (const name of names) for (const run of runsOf(name)) await measure(`${round}/${rounds}`, name, run)
  return judge(targets, figures)
}

/** The short form only judges, so it leaves out peers that no target names. */
function runsOf(scenario: string): readonly Run[] {
  const runs = scenarios[scenario]?.runs ?? []
  const peers = targets.flatMap(target => (target.scenario === scenario && target.peer) || [])
  return isShort && peers.length > 0 ? runs.filter(({ name }) => name === receiverd.name || peers.includes(name)) : runs
}

async function measure(round: string, scenario: string, { name, missing, measure }: Run): Promise<void> {
  const label = `${round} ${scenario} ${name}`
  if (missing !== undefined) return console.error(`${label}: skipped; apt-get install ${missing}`)
  try {
    const read = Object.entries(await measure(size))
    for (const [figure, value] of read) record(figures, [scenario, name, figure], value)
    console.error(`${label}: ${read.map(([figure, value]) => `${figure} ${digits(value)}`).join(', ')}`)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    failures.push({ round, scenario, subject: name, message })
    console.error(`${label}: FAILED: ${message}`)
  }
}

function report(): void {
  for (const [name, bySubject] of Object.entries(figures)) {
    const columns = [...new Set(Object.values(bySubject).flatMap(Object.keys))]
    const rows = Object.entries(bySubject).map(([subject, byFigure]) => [
      subject,
      ...columns.map(column => (byFigure[column] ? digits(median(byFigure[column])) : '')),
    ])
    console.log(table([[name, ...columns], ...rows]))
  }
  const rows = verdicts.map(({ what, peer = '', ours, theirs, ratio, atMost, atLeast, met }) => [
    what,
    peer,
    ...[ours, theirs, ratio].map(digits),
    atMost === undefined ? `>= ${atLeast}` : `<= ${atMost}`,
    met ? 'met' : 'MISSED',
  ])
  console.log(table([['target', 'to', 'ours', 'theirs', 'ratio', 'wanted', ''], ...rows]))
}
