// Measures the service against what somebody would use instead, and its targets. `make bench` runs it.
//
//   ONLY=sse,get   these scenarios alone
//   SHORT=1        a few minutes; fails where a target, or what is reached of it, is missed by twice
//   ROUNDS=1       instead of three
//   NODE=path      another Node for the service and its peers
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { join } from 'node:path'
import { has } from './process.mjs'
import { FULL, median, SHORT, scenarios } from './scenarios.mjs'
import { NODE_VERSION, OUT, receiverd } from './subjects.mjs'
import { targets } from './targets.mjs'

/** By how much the short form may miss what is asked for, or is reached: more is no noise. */
const TOLERANCE = 2
const NEEDED = { taskset: 'util-linux', wrk: 'wrk', cc: 'gcc libc6-dev' }

const size = {
  ...(process.env.SHORT ? SHORT : FULL),
  ...(process.env.ROUNDS && { rounds: Number(process.env.ROUNDS) }),
}
const all = Object.keys(scenarios).filter(name => !(process.env.SHORT && scenarios[name].once))
const names = process.env.ONLY ? process.env.ONLY.split(',') : all
const unknown = names.find(name => !(name in scenarios))
if (unknown !== undefined) throw new Error(`ONLY=${unknown}: there are ${Object.keys(scenarios).join(', ')}`)

mkdirSync(OUT, { recursive: true })
const missing = Object.keys(NEEDED).filter(command => !has(command))
for (const command of missing) console.error(`${command} is missing: apt-get install ${NEEDED[command]}`)
if (missing.includes('cc') || missing.includes('taskset')) process.exit(1)
for (const program of ['load', 'limit', 'fsyncs'])
  execFileSync('cc', ['-O2', '-Wall', '-o', join(OUT, program), `test/bench/${program}.c`], { stdio: 'inherit' })
// Once, for the body that the peers answer with.
await (await receiverd.start()).stop()

/** Figures by scenario, subject and name: one a round. */
const figures = {}
const failures = []
const loadBefore = loadavg()
let verdicts = await measureAll(names, size.rounds)
// What is slow for once was noise: that scenario is measured again, twice, and its median counts.
const again = new Set(verdicts.filter(isRegression).map(({ scenario }) => scenario))
if (process.env.SHORT && again.size > 0) verdicts = await measureAll([...again], 2)
report()
const machine = { cpu: cpus()[0]?.model, cores: cpus().length, loadBefore, loadAfter: loadavg(), node: NODE_VERSION }
writeFileSync('build/out/bench.json', `${JSON.stringify({ machine, size, figures, verdicts, failures }, null, 2)}\n`)
if (failures.length > 0) process.exitCode = 1
if (process.env.SHORT)
  for (const verdict of verdicts.filter(isRegression)) {
    console.error(`${verdict.what}: ${format(verdict.ratio)} is more than twice of what it may be`)
    process.exitCode = 1
  }

async function measureAll(names, rounds) {
  for (let round = 1; round <= rounds; round++)
    for (const name of names)
      for (const subject of scenarios[name].subjects) await measure(`${round}/${rounds}`, name, subject)
  return targets.map(judge).filter(verdict => verdict !== undefined)
}

async function measure(round, name, subject) {
  const label = `${round} ${name} ${subject.name}`
  if (subject.missing !== undefined) return console.error(`${label}: left out; apt-get install ${subject.missing}`)
  try {
    const read = await scenarios[name].run(subject, size)
    for (const [figure, value] of Object.entries(read)) {
      figures[name] ??= {}
      figures[name][subject.name] ??= {}
      figures[name][subject.name][figure] ??= []
      figures[name][subject.name][figure].push(value)
    }
    console.error(
      `${label}: ${Object.entries(read)
        .map(([figure, value]) => `${figure} ${format(value)}`)
        .join(', ')}`,
    )
  } catch (error) {
    failures.push({ round, scenario: name, subject: subject.name, message: error.message })
    console.error(`${label}: FAILED: ${error.message}`)
  }
}

/** The ratio is taken in each round, and the median of them: what else the machine did then was done to both. */
function judge({ what, scenario, figure, peer, to = figure, atMost, atLeast, reached }) {
  const ours = figures[scenario]?.[receiverd.name]?.[figure]
  const theirs =
    peer === undefined && to === figure ? ours?.map(() => 1) : figures[scenario]?.[peer ?? receiverd.name]?.[to]
  if (!ours || !theirs) return undefined
  const ratio = median(ours.map((value, round) => value / theirs[round]).filter(Number.isFinite))
  const excess = bound => (atMost === undefined ? bound / ratio : ratio / bound)
  return {
    what,
    scenario,
    peer,
    ours: median(ours),
    theirs: median(theirs),
    ratio,
    atMost,
    atLeast,
    met: excess(atMost ?? atLeast) <= 1,
    excess: excess(reached ?? atMost ?? atLeast),
  }
}

/** No ratio at all is one, too. */
function isRegression({ excess }) {
  return !(excess <= TOLERANCE)
}

function report() {
  for (const [name, bySubject] of Object.entries(figures)) {
    const columns = [...new Set(Object.values(bySubject).flatMap(Object.keys))]
    print([
      [name, ...columns],
      ...Object.entries(bySubject).map(([subject, byFigure]) => [
        subject,
        ...columns.map(column => (byFigure[column] ? format(median(byFigure[column])) : '')),
      ]),
    ])
  }
  print([
    ['target', 'to', 'ours', 'theirs', 'ratio', 'wanted', ''],
    ...verdicts.map(({ what, peer = '', ours, theirs, ratio, atMost, atLeast, met }) => [
      what,
      peer,
      format(ours),
      format(theirs),
      format(ratio),
      atMost === undefined ? `>= ${atLeast}` : `<= ${atMost}`,
      met ? 'met' : 'MISSED',
    ]),
  ])
}

function print(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map(row => row[column].length)))
  for (const row of rows)
    console.log(row.map((cell, n) => (n === 0 ? cell.padEnd(widths[n]) : cell.padStart(widths[n]))).join('  '))
  console.log()
}

function format(value) {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3)
}
