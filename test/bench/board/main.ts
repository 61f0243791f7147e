// Measures the service on the board that this runs on, beside a bare node:http program. `make bench-board` makes one file
// of it; all that it needs is inside, and goes into a temporary folder.
import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readBoard } from './board.ts'
import type { Result, Task } from './load.ts'
import { median } from './median.ts'
import { figuresOf, format, type Report, type Round, type Sample, type Subject } from './report.ts'
import { Server } from './server.ts'

/** What the build puts in: the programs, and a device's root. Texts are latin1, which holds every byte. */
declare const __PROGRAMS__: Readonly<Record<'receiverd' | 'bare' | 'load', string>>
declare const __ROOT__: readonly { readonly path: string; readonly text?: string; readonly link?: string }[]

const HELP = `Measures receiverd on this board, beside a bare node:http program.

Usage: node bench-board.cjs [--quick] [--json] [--streams N] [--rounds N]

  --quick      one short round: whether it runs, not how fast
  --json       the same as JSON
  --streams N  clients that follow the events (default 100)
  --rounds N   rounds, of which the medians are taken (default 5)

It works in a temporary folder, which it removes, and on the loopback alone.
Changes are synced to that folder: TMPDIR=DIR has it on other storage.
`

const FULL = {
  rounds: 5,
  streams: 100,
  starts: 5,
  getMs: 4_000,
  warmMs: 2_000,
  events: 100,
  everyMs: 40,
  restMs: 1_000,
}
const QUICK = { rounds: 1, streams: 20, starts: 1, getMs: 300, warmMs: 100, events: 20, everyMs: 20, restMs: 50 }
const CONNECTIONS = 8
/** What a Node may need to start; of the caller's environment the servers get nothing else. */
const ENV = { PATH: process.env.PATH, LD_LIBRARY_PATH: process.env.LD_LIBRARY_PATH }
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean' },
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
      streams: { type: 'string' },
      rounds: { type: 'string' },
    },
  })
  if (values.help) return void process.stdout.write(HELP)
  const size = values.quick ? { ...QUICK } : { ...FULL }
  for (const name of ['streams', 'rounds'] as const) {
    const text = values[name]
    if (text === undefined) continue
    if (!/^[1-9]\d{0,3}$/.test(text)) throw new Error(`--${name}: "${text}" is not a number from 1 to 9999`)
    size[name] = Number(text)
  }

  const folder = mkdtempSync(join(tmpdir(), 'bench-board-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  for (const [signal, number] of Object.entries(SIGNALS)) process.once(signal, () => process.exit(128 + number))
  const report = await measure(folder, size)
  process.stdout.write(values.json ? `${JSON.stringify(report, null, 2)}\n` : format(report))
  process.exit()
}

async function measure(folder: string, size: typeof FULL): Promise<Report> {
  const root = join(folder, 'root')
  const program = (name: keyof typeof __PROGRAMS__) => join(folder, `${name}.cjs`)
  for (const [name, text] of Object.entries(__PROGRAMS__)) writeFileSync(join(folder, `${name}.cjs`), text, 'latin1')
  for (const { path, text, link } of __ROOT__) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    if (link === undefined) writeFileSync(join(root, path), text ?? '', 'latin1')
    else symlinkSync(link, join(root, path))
  }
  const receiverd = (...args: string[]) =>
    execFileSync(process.execPath, [program('receiverd'), ...args], { encoding: 'utf8', env: ENV }).trim()
  receiverd('key', 'rotate', '--root', root)
  const request = requests(receiverd('token', '--role', 'admin:rw', '--root', root))

  let bodyLength = 0
  const start = (subject: Subject) =>
    subject === 'bare'
      ? Server.start([program('bare'), String(bodyLength)], ENV, request.get)
      : Server.start(
          [program('receiverd'), 'serve', '--root', root, '--listen', '127.0.0.1:0'],
          { ...ENV, RECEIVERD_STREAMS: String(size.streams), RECEIVERD_STREAMS_PER_ADDRESS: String(size.streams) },
          request.get,
        )
  // Once before anything is measured: the files are in the page cache then, for both.
  const first = await start('ours')
  bodyLength = first.firstBodyLength
  await first.stop()

  const load = fork(program('load'))
  const failed = once(load, 'exit').then((): never => {
    throw new Error('the clients have ended: see above')
  })
  process.once('exit', () => load.kill('SIGKILL'))
  const deliveries = { expected: 0, arrived: 0 }
  /** Has the clients do something, and reads what processor time the server took meanwhile. */
  async function run(server: Server, task: Task): Promise<Result & { readonly cpuUs: number }> {
    const before = server.cpuMs()
    load.send(task)
    const [result] = (await Promise.race([once(load, 'message'), failed])) as [Result]
    return { ...result, cpuUs: (server.cpuMs() - before) * 1000 }
  }

  async function measureOne(subject: Subject): Promise<Omit<Sample, 'start'>> {
    const server = await start(subject)
    const { port } = server
    const { events, everyMs, streams, getMs, warmMs } = size
    const follow = (streams: number) => run(server, { what: 'follow', port, request: request.follow, streams })
    const publish = (everyMs: number) => run(server, { what: 'publish', port, request: request.patch, events, everyMs })
    const get = (forMs: number) =>
      run(server, { what: 'get', port, request: request.get, connections: CONNECTIONS, forMs })

    await sleep(size.restMs)
    const idle = server.memory()
    await follow(streams)
    await sleep(size.restMs)
    const open = server.memory()
    const paced = await publish(everyMs)
    const burst = await publish(0)
    await follow(0)
    const change = await publish(everyMs)
    await get(warmMs)
    const got = await get(getMs)
    await server.stop()

    deliveries.expected += 2 * events * streams
    deliveries.arrived += paced.delivered + burst.delivered
    return {
      requests: (got.answered / got.ms) * 1000,
      requestCpu: got.cpuUs / got.answered,
      change: change.answerMs,
      changeCpu: change.cpuUs / change.answered,
      paced: paced.lastClientMs,
      pacedCpu: paced.cpuUs / paced.delivered,
      burst: (burst.delivered / burst.ms) * 1000,
      burstCpu: burst.cpuUs / burst.delivered,
      idleAnon: idle.anon,
      idleFile: idle.file,
      openAnon: open.anon,
      openFile: open.file,
    }
  }

  const rounds: Round[] = []
  while (rounds.length < size.rounds) {
    console.error(`round ${rounds.length + 1} of ${size.rounds}`)
    // Who goes first finds the board cooler.
    const order: readonly Subject[] = rounds.length % 2 === 0 ? ['ours', 'bare'] : ['bare', 'ours']
    const starts: Record<Subject, number[]> = { ours: [], bare: [] }
    for (let n = 0; n < size.starts; n++)
      for (const subject of order) {
        const server = await start(subject)
        starts[subject].push(server.startMs)
        await server.stop()
      }
    const round: Partial<Record<Subject, Sample>> = {}
    for (const subject of order) round[subject] = { start: median(starts[subject]), ...(await measureOne(subject)) }
    rounds.push(round as Round)
  }
  return {
    board: readBoard(folder),
    receiverd: receiverd('--version').replace('receiverd ', ''),
    rounds: size.rounds,
    streams: size.streams,
    deliveries,
    figures: figuresOf(rounds),
  }
}

function requests(token: string) {
  const head = (line: string, ...headers: readonly string[]) =>
    [`${line} HTTP/1.1`, 'Host: localhost', `Authorization: Bearer ${token}`, ...headers, '', ''].join('\r\n')
  const change = '{"deviceName":"bench-########"}'
  return {
    get: head('GET /api/v1/system'),
    follow: head('GET /api/v1/events', 'Accept: text/event-stream'),
    patch: head('PATCH /api/v1/system', 'Content-Type: application/json', `Content-Length: ${change.length}`) + change,
  }
}

main().catch((error: Error) => {
  console.error(`bench-board: ${error.message}`)
  process.exit(1)
})
