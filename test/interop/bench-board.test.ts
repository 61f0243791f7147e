/** The measurement that is copied to a board, as it is there: one file, with nothing beside it. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'

execFileSync(process.execPath, ['--import', 'tsx', 'build/board.ts'], { cwd: REPOSITORY })

interface Run {
  readonly child: ChildProcess
  /** Files in its temporary folder. */
  readonly left: () => readonly string[]
  readonly output: () => string
  readonly errors: () => string
}

function start(t: Test, ...args: readonly string[]): Run {
  const folder = temporaryFolder(t)
  const temporary = join(folder, 'tmp')
  mkdirSync(temporary)
  copyFileSync(join(REPOSITORY, 'build/out/bench-board.cjs'), join(folder, 'bench-board.cjs'))
  // In a process group of its own, to see whether any process of it is left.
  const child = spawn(process.execPath, ['bench-board.cjs', ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH, TMPDIR: temporary },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const texts = ['', '']
  for (const [n, stream] of [child.stdout, child.stderr].entries())
    stream.setEncoding('utf8').on('data', chunk => {
      texts[n] += chunk
    })
  t.teardown(() => {
    if (groupLives(child)) process.kill(-(child.pid ?? 0), 'SIGKILL')
  })
  return {
    child,
    left: () => readdirSync(temporary),
    output: () => texts[0] ?? '',
    errors: () => texts[1] ?? '',
  }
}

function groupLives(child: ChildProcess): boolean {
  try {
    return process.kill(-(child.pid ?? 0), 0)
  } catch {
    return false
  }
}

t.test('a quick run measures everything, and leaves nothing behind', async t => {
  const { child, left, output, errors } = start(t, '--quick', '--json', '--streams', '5')
  const [status] = await once(child, 'close')
  t.equal(status, 0, errors())
  const report = JSON.parse(output())
  t.match(report, {
    board: { model: /./, architecture: process.arch, cores: Number, kernel: /./, node: process.version },
    receiverd: /^\d+\.\d+\.\d+/,
    rounds: 1,
    streams: 5,
    deliveries: { expected: 400, arrived: 400 },
  })
  t.same(
    report.figures.map(({ figure }: { figure: string }) => figure),
    ['start', 'requests', 'requestCpu', 'change', 'changeCpu', 'paced', 'pacedCpu', 'burst', 'burstCpu'].concat([
      ...['idleAnon', 'idleFile', 'openAnon', 'openFile'],
    ]),
  )
  for (const { figure, what, ours, bare, ratio } of report.figures) {
    t.ok(ours > 0 && bare > 0, `${figure}: ${what}`)
    t.equal(ratio, ours / bare, 'of a single round')
  }
  t.same(left(), [])
  await eventually(() => !groupLives(child))
})

t.test('it leaves nothing behind when interrupted', async t => {
  const { child, left, errors } = start(t)
  await eventually(() => errors().includes('round 1'))
  t.not(left().length, 0)
  child.kill('SIGINT')
  t.same(await once(child, 'exit'), [130, null])
  t.same(left(), [])
  await eventually(() => !groupLives(child))
})

t.test('--help, and a usage error', async t => {
  const help = start(t, '--help')
  t.same(await once(help.child, 'close'), [0, null])
  t.match(help.output(), /^Usage: node bench-board\.cjs /m)
  const wrong = start(t, '--streams', 'many')
  t.same(await once(wrong.child, 'close'), [1, null])
  t.match(wrong.errors(), /^bench-board: --streams: "many" is not a number from 1 to 9999\n$/)
})
