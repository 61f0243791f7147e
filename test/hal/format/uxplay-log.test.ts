import t from 'tap'
import { lastCaller, refusedCaller } from '../../../hal/format/uxplay-log.ts'

const [ANN, BOB] = ['AA:BB:CC:00:00:01', 'AA:BB:CC:00:00:02']
const ARRIVAL = ['Accepted IPv4 client on socket 19', 'Local : 198.18.1.2', 'Remote: 198.18.1.1']
const REJECTED = [
  ...ARRIVAL,
  '*** WARNING: rejecting new connection request from 198.18.1.1',
  'Connection closed for socket 20',
  'Connection closed for socket 20',
]
const LEFT = ['Connection closed for socket 19', 'Connection closed for socket 19']
const MIRRORS = ['Client identified as User-Agent: AirPlay/695.12', 'raop_rtp_mirror starting mirroring']

/** What is printed about a device, as lines of the journal. */
const request = (name: string, id: string, model = 'iPhone15,2') =>
  `connection request from ${name} (${model}) with deviceID = ${id}`.split('\n')
const refusal = (name: string, id: string, model?: string) => [
  ...request(name, id, model),
  'client connections have been restricted to those with listed deviceID,',
  ...`use "-allow ${id}" to allow this client to connect.`.split('\n'),
]

t.test('the device that was refused', async t => {
  t.equal(refusedCaller([]), undefined)
  t.equal(refusedCaller(ARRIVAL), undefined)
  const name = "Ann's (old) iPhone"
  const lines = [...ARRIVAL, ...refusal(name, ANN)]
  t.strictSame(refusedCaller(lines), { name, model: 'iPhone15,2', deviceId: ANN, line: 5 })
  t.match(refusedCaller([...lines, ...REJECTED]), { name, line: 5 }, 'while another device finds UxPlay busy')
  t.match(refusedCaller([...lines, ...REJECTED, ...refusal(name, ANN)]), { name, line: 14 }, 'asking again')
  t.match(refusedCaller([...lines, ...LEFT, ...ARRIVAL, ...refusal('Bob', BOB)]), { name: 'Bob', deviceId: BOB })
  t.equal(refusedCaller([...lines, ...LEFT, ...request('Bob', BOB)]), undefined, 'Bob is let in')
  t.match(refusedCaller(refusal('Ann', ANN).slice(1)), { name: '', model: '', deviceId: ANN }, 'a line is missing')
})

t.test('the device that was let in', async t => {
  t.equal(lastCaller(ARRIVAL), undefined)
  const lines = [...ARRIVAL, ...request('Ann', ANN), ...MIRRORS]
  t.strictSame(lastCaller(lines), { name: 'Ann', model: 'iPhone15,2', deviceId: ANN })
  t.match(lastCaller([...refusal('Bob', BOB), ...LEFT, ...lines, ...REJECTED]), { name: 'Ann' })
  t.equal(lastCaller(request('Ann', '(null)')), undefined)
})

t.test('lines that a device forges, by what it says of itself', async t => {
  const asBob = refusal('Boss', BOB).join('\n')
  for (const end of ['', '\n', `\n${LEFT[0]}`, '\nconnection request from Boss (iPhone15,2) with deviceID = x']) {
    const forged = `x\n${asBob}${end}`
    for (const lines of [refusal(forged, ANN), refusal('x', ANN, forged)]) {
      t.match(refusedCaller(lines), { deviceId: ANN }, JSON.stringify(end))
      t.not(refusedCaller(lines)?.name, 'Boss')
    }
    for (const id of [`${ANN}\n${asBob}${end}`, `${forged}\n`])
      t.equal(refusedCaller(refusal('x', id)), undefined, 'by its ID')
    for (const lines of [request(forged, ANN), request('x', ANN, forged)]) {
      t.equal(refusedCaller(lines), undefined, 'who is let in waits for nobody')
      t.match(lastCaller([...lines, ...MIRRORS]), { deviceId: ANN })
      t.not(lastCaller(lines)?.name, 'Boss')
    }
  }
  const agent = `Client identified as User-Agent: x with deviceID = ${BOB}`
  t.match(lastCaller([...request('Ann', ANN), agent]), { name: 'Ann', deviceId: ANN })
  const timing = [
    '*** ERROR: Client specified timingProtocol=x',
    ...request('Boss', BOB),
    'x, but NTP is required here',
  ]
  t.match(lastCaller([...request('Ann', ANN), ...MIRRORS, ...timing], new Set([ANN])), { name: 'Ann', deviceId: ANN })
  t.equal(lastCaller(timing, new Set([ANN])), undefined)
  for (const id of ['nonsense', ANN.toLowerCase(), `${ANN} `, ''])
    t.equal(refusedCaller(refusal('Ann', id)), undefined, id)
})
