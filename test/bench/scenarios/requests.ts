// Cost of requests and starts.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LOAD_CORE, run } from '../cores.ts'
import { median } from '../median.ts'
import { OUT, type Subject, SYSTEM } from '../subjects/subject.ts'
import { type Figures, MIB, SETTLE_MS, type Size } from './scenario.ts'

const CONNECTIONS = 32
const STARTS = 5
/** More than are remembered. */
const MANY_TOKENS = 1_000

export function oneToken(subject: Subject, size: Size): Promise<Figures> {
  return requests(subject, size, 1)
}

export function manyTokens(subject: Subject, size: Size): Promise<Figures> {
  return requests(subject, size, MANY_TOKENS)
}

async function requests(subject: Subject, { seconds }: Size, tokens: number): Promise<Figures> {
  const server = await subject.start()
  try {
    const TOKENS = join(OUT, 'tokens')
    writeFileSync(TOKENS, Array.from({ length: tokens }, (_, n) => `${subject.token(`panel-${n}`)}\n`).join(''))
    const wrk = (forS: number) => {
      const url = `http://127.0.0.1:${server.port}${SYSTEM}`
      const argv = ['wrk', '-t1', `-c${CONNECTIONS}`, `-d${forS}s`, '-s', 'test/bench/tokens.lua', url]
      return run(LOAD_CORE, argv, { TOKENS })
    }
    await wrk(1)
    const before = server.cpuNs()
    const output = await wrk(seconds)
    const cpuUs = (server.cpuNs() - before) / 1_000 / Number(/(\d+) requests in/.exec(output)?.[1])
    if (output.includes('Non-2xx')) throw new Error(`${subject.name} refuses: ${output}`)
    return { ks: Number(/Requests\/sec:\s+([\d.]+)/.exec(output)?.[1]) / 1_000, cpuUs }
  } finally {
    await server.stop()
  }
}

export async function starts(subject: Subject): Promise<Figures> {
  const times: number[] = []
  let idle = 0
  for (let n = 1; n <= STARTS; n++) {
    const server = await subject.start()
    times.push(server.startMs)
    if (n === STARTS) {
      await sleep(SETTLE_MS)
      idle = server.memory('RssAnon')
    }
    await server.stop()
  }
  return { startMs: median(times), idleMib: idle / MIB }
}
