import { median } from '../median.ts'
import { digits, table } from '../table.ts'
import type { Board } from './board.ts'

/** The figures, in the order of the table. CPU is the server's. */
export const FIGURES = {
  start: ['start-up, from spawn to first answer', 'ms'],
  requests: ['GET /system', '/s'],
  requestCpu: ['GET /system: CPU', 'us'],
  change: ['PATCH /system, nobody follows', 'ms'],
  changeCpu: ['PATCH /system, nobody follows: CPU', 'us'],
  paced: ['PATCH to event at the last client', 'ms'],
  pacedCpu: ['event delivered: CPU', 'us'],
  burst: ['events delivered in a burst', '/s'],
  burstCpu: ['event delivered in a burst: CPU', 'us'],
  idleAnon: ['memory idle: RssAnon', 'MiB'],
  idleFile: ['memory idle: RssFile', 'MiB'],
  openAnon: ['memory with streams open: RssAnon', 'MiB'],
  openFile: ['memory with streams open: RssFile', 'MiB'],
} as const

export type Sample = Readonly<Record<keyof typeof FIGURES, number>>
export type Subject = 'ours' | 'bare'
export type Round = Readonly<Record<Subject, Sample>>

export interface Report {
  readonly board: Board
  readonly receiverd: string
  readonly rounds: number
  readonly streams: number
  /** Of both servers; if one is lost, there is no report. */
  readonly deliveries: { readonly expected: number; readonly arrived: number }
  readonly figures: ReturnType<typeof figuresOf>
}

/** The ratio is taken in each round, and then the median: whatever else the board did then, it did to both. */
export function figuresOf(rounds: readonly Round[]) {
  return (Object.keys(FIGURES) as (keyof Sample)[]).map(figure => {
    const of = (value: (round: Round) => number) => median(rounds.map(value))
    const [what, unit] = FIGURES[figure]
    const ours = of(round => round.ours[figure])
    const bare = of(round => round.bare[figure])
    return { figure, what, unit, ours, bare, ratio: of(round => round.ours[figure] / round.bare[figure]) }
  })
}

export function format({ board, receiverd, rounds, streams, deliveries, figures }: Report): string {
  const rows = [
    ['', 'receiverd', 'bare', 'ratio'],
    ...figures.map(({ what, unit, ours, bare, ratio }) => [
      `${what} (${unit})`,
      digits(ours),
      digits(bare),
      ratio.toFixed(2),
    ]),
  ]
  const lines = [
    `${board.model}: ${board.architecture}, ${board.cores} cores, ${board.memoryMiB} MiB`,
    `Linux ${board.kernel}, Node ${board.node}, files on ${board.storage}`,
    `receiverd ${receiverd}, bare node:http; ${streams} streams; rounds: ${rounds}`,
    `${deliveries.arrived} of ${deliveries.expected} events delivered, each once and in order`,
  ]
  if (board.virtual !== undefined)
    lines.push(`An emulator or a virtual machine (${board.virtual}): its absolute figures are not those of a board.`)
  return `${lines.join('\n')}\n\n${table(rows)}`
}
