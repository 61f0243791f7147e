import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { killAtExit } from '../lifetime.ts'
import { median } from '../median.ts'
import { Server } from '../server.ts'
import { readBoard } from './board.ts'
import type { Result, Task } from './clients.ts'
import { type Device, ENV, unpack } from './device.ts'
import { figuresOf, type Report, type Round, type Sample, type Subject } from './report.ts'

export const FULL = {
  rounds: 5,
  streams: 100,
  starts: 5,
  getMs: 4_000,
  warmMs: 2_000,
  events: 100,
  everyMs: 40,
  restMs: 1_000,
}
export type Size = Readonly<typeof FULL>
export const QUICK: Size = {
  rounds: 1,
  streams: 20,
  starts: 1,
  getMs: 300,
  warmMs: 100,
  events: 20,
  everyMs: 20,
  restMs: 50,
}
const CONNECTIONS = 8
const MIB = 1024 * 1024

type Start = (subject: Subject) => Promise<Server>
/** Has the clients do a task, and reads the processor time that the server takes for it. */
type Ask = (server: Server, task: Task) => Promise<Result & { readonly cpuUs: number }>
/** A task without the members that are the same at a server. */
type PartOf<T> = T extends Task ? Omit<T, 'port'> : never

/** Works in `folder`. */
export async function measure(folder: string, size: Size): Promise<Report> {
  const device = unpack(folder)
  const start = await starter(device, size)
  const ask = clients(device.programs.clients)
  const deliveries = { expected: 0, arrived: 0 }
  const rounds: Round[] = []
  while (rounds.length < size.rounds) {
    console.error(`round ${rounds.length + 1} of ${size.rounds}`)
    // The first to run finds the board cooler.
    const order: readonly Subject[] = rounds.length % 2 === 0 ? ['ours', 'bare'] : ['bare', 'ours']
    const starts: Record<Subject, number[]> = { ours: [], bare: [] }
    for (let n = 0; n < size.starts; n++)
      for (const subject of order) {
        const server = await start(subject)
        starts[subject].push(server.startMs)
        await server.stop()
      }
    const round: Partial<Record<Subject, Sample>> = {}
    for (const subject of order) {
      const { delivered, ...figures } = await measureServer(await start(subject), device, size, ask)
      round[subject] = { start: median(starts[subject]), ...figures }
      deliveries.expected += 2 * size.events * size.streams
      deliveries.arrived += delivered
    }
    rounds.push(round as Round)
  }
  const figures = figuresOf(rounds)
  const { version: receiverd } = device
  return { board: readBoard(folder), receiverd, rounds: size.rounds, streams: size.streams, deliveries, figures }
}

async function starter({ root, programs, requests }: Device, { streams }: Size): Promise<Start> {
  const limits = { RECEIVERD_STREAMS: String(streams), RECEIVERD_STREAMS_PER_ADDRESS: String(streams) }
  const ours = [programs.receiverd, 'serve', '--root', root, '--listen', '127.0.0.1:0']
  const start = (args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    Server.start({ argv: [process.execPath, ...args], env: { ...ENV, ...env }, request: requests.get })
  // Once before anything is measured: the files are in the page cache then, for both.
  const first = await start(ours, limits)
  await first.stop()
  const length = /^HTTP\/1\.1 200 [\s\S]*\r\ncontent-length: (\d+)/i.exec(first.firstAnswer)?.[1]
  if (length === undefined) throw new Error(`the first answer was ${first.firstAnswer}`)
  return subject => (subject === 'bare' ? start([programs.bare, length, root]) : start(ours, limits))
}

function clients(program: string): Ask {
  const process = fork(program)
  killAtExit(process)
  const failed = once(process, 'exit').then((): never => {
    throw new Error('the clients have ended, see above')
  })
  return async (server, task) => {
    const before = server.cpuNs()
    process.send(task)
    const [result] = (await Promise.race([once(process, 'message'), failed])) as [Result]
    return { ...result, cpuUs: (server.cpuNs() - before) / 1_000 }
  }
}

async function measureServer(server: Server, { requests }: Device, size: Size, ask: Ask) {
  const { events, everyMs, streams, getMs, warmMs, restMs } = size
  const run = (task: PartOf<Task>) => ask(server, { ...task, port: server.port })
  const follow = (streams: number) => run({ what: 'follow', request: requests.follow, streams })
  const publish = (everyMs: number) => run({ what: 'publish', request: requests.patch, events, everyMs })
  const get = (forMs: number) => run({ what: 'get', request: requests.get, connections: CONNECTIONS, forMs })
  const memory = () => ({ anon: server.memory('RssAnon') / MIB, file: server.memory('RssFile') / MIB })

  await sleep(restMs)
  const idle = memory()
  await follow(streams)
  await sleep(restMs)
  const open = memory()
  const paced = await publish(everyMs)
  const burst = await publish(0)
  await follow(0)
  const change = await publish(everyMs)
  await get(warmMs)
  const got = await get(getMs)
  await server.stop()
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
    delivered: paced.delivered + burst.delivered,
  }
}
