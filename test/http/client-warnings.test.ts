import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ClientWarnings } from '../../src/http/client-warnings.ts'
import { MAX_WARNED_CLIENTS } from '../../src/limits.ts'
import { eventually } from '../support/eventually.ts'

const PERIOD_MS = 200

function setUp() {
  const log: string[] = []
  return { log, warnings: new ClientWarnings((level, line) => log.push(`${level}: ${line}`), PERIOD_MS) }
}

t.test('a line at once, then one for each period with a count', async t => {
  const { log, warnings } = setUp()
  warnings.warn('a', 'a: first')
  t.strictSame(log, ['warning: a: first'])
  for (let n = 0; n < 40; n++) warnings.warn('a', `a: expired ${n}`)
  warnings.warn('b', 'b: first')
  t.strictSame(log, ['warning: a: first', 'warning: b: first'], 'others have lines of their own')
  // The timers do not keep a process alive, so something else must.
  await eventually(() => log.length === 3)
  t.equal(log[2], 'warning: a: expired 39 (the last of 40 in 0.2 s)')
  warnings.warn('a', 'a: again')
  t.equal(log.length, 3, 'not twice in one period')
  await eventually(() => log.length === 4)
  t.equal(log[3], 'warning: a: again (the last of 1 in 0.2 s)')
  await sleep(3 * PERIOD_MS)
  t.equal(log.length, 4, 'nothing is said of a client that is quiet')
  warnings.warn('a', 'a: later')
  t.equal(log[4], 'warning: a: later', 'and its next warning is told at once')
})

t.test('a flood of addresses shares its lines', async t => {
  const { log, warnings } = setUp()
  for (let n = 0; n < 10_000; n++) warnings.warn(`network ${n}`, `address ${n}: refused`)
  t.equal(log.length, MAX_WARNED_CLIENTS + 1)
  await eventually(() => log.length === MAX_WARNED_CLIENTS + 2)
  t.equal(
    log.at(-1),
    `warning: address 9999: refused (the last of ${9_999 - MAX_WARNED_CLIENTS} from other clients in 0.2 s)`,
  )
})
