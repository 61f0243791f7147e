// Measures the service on the board that this runs on, beside a bare node:http program. `make bench-board` bundles it into
// one file with everything that it needs.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { exitOnSignals } from '../lifetime.ts'
import { FULL, measure, QUICK, type Size } from './measure.ts'
import { format } from './report.ts'

const HELP = `Measures receiverd on this board, beside a bare node:http program.

Usage: node bench-board.cjs [--quick] [--json] [--streams N] [--rounds N]

  --quick      one short round: shows whether it runs, not how fast
  --json       print the report as JSON
  --streams N  clients that follow the events (default ${FULL.streams})
  --rounds N   rounds to take the medians of (default ${FULL.rounds})

It works in a temporary folder, which it removes, and on the loopback interface.
Changes are synced to that folder: set TMPDIR to measure other storage.
`

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
  const base: Size = values.quick ? QUICK : FULL
  const size = {
    ...base,
    streams: count('streams', values.streams, base.streams),
    rounds: count('rounds', values.rounds, base.rounds),
  }

  const folder = mkdtempSync(join(tmpdir(), 'bench-board-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  exitOnSignals()
  const report = await measure(folder, size)
  process.stdout.write(values.json ? `${JSON.stringify(report, null, 2)}\n` : format(report))
  process.exit()
}

function count(name: string, text: string | undefined, byDefault: number): number {
  if (text === undefined) return byDefault
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new Error(`--${name}: "${text}" is not a number from 1 to 9999`)
  return Number(text)
}

main().catch((error: Error) => {
  console.error(`bench-board: ${error.message}`)
  process.exit(1)
})
