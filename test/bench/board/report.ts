import type { Board } from './board.ts'
import { median } from './median.ts'

/** What is measured, in the order of the table. CPU is the server's. */
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
  /** Of both together; a run in which one is missing ends without a report. */
  readonly deliveries: { readonly expected: number; readonly arrived: number }
  readonly figures: ReturnType<typeof figuresOf>
}

/** The ratio is taken in each round, and the median of them: what else the board did then was done to both. */
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
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0))) ?? []
  const lines = [
    `${board.model}: ${board.architecture}, ${board.cores} cores, ${board.memoryMiB} MiB`,
    `Linux ${board.kernel}, Node ${board.node}, files on ${board.storage}`,
    `receiverd ${receiverd}, bare node:http; ${streams} streams; rounds: ${rounds}`,
    `${deliveries.arrived} of ${deliveries.expected} events delivered, each once and in order`,
  ]
  if (board.virtual !== undefined)
    lines.push(`An emulator or a virtual machine (${board.virtual}): absolute figures are its own, not a board's.`)
  lines.push('')
  for (const row of rows)
    lines.push(row.map((cell, n) => (n === 0 ? cell.padEnd(widths[n] ?? 0) : cell.padStart(widths[n] ?? 0))).join('  '))
  return `${lines.join('\n')}\n`
}

function digits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3)
}
