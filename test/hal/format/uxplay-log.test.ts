import t from 'tap'
import { hasComeIn, lastCaller, pinIn, refusedCaller, withoutPin } from '../../../hal/format/uxplay-log.ts'

const [ANN, BOB] = ['AA:BB:CC:00:00:01', 'AA:BB:CC:00:00:02']
const arrival = (socket: number) => [
  `Accepted IPv4 client on socket ${socket}`,
  'Local : 198.18.1.2',
  'Remote: 198.18.1.1',
]
const ARRIVAL = arrival(19)
const REJECTED = [
  ...arrival(20),
  '*** WARNING: rejecting new connection request from 198.18.1.1',
  'Connection closed for socket 20',
  'Connection closed for socket 20',
]
const LEFT = ['Connection closed for socket 19', 'Connection closed for socket 19']
const MIRRORS = ['Client identified as User-Agent: AirPlay/695.12', 'raop_rtp_mirror starting mirroring']
/** Printed about what a refused device goes on to say, or another one. */
const SAID = [
  'ignoring AirPlay video streaming request (use option -hls to activate HLS support)',
  "*** WARNING: httpd didn't get response",
  '*** ERROR: httpd error in parsing: HPE_INVALID_METHOD',
  '*** ERROR: httpd: recv socket error 104:Connection reset by peer',
  '*** ERROR: httpd error in sending data',
  '*** ERROR: Mirroring not initialized at SETUP, playing will fail!',
  '*** WARNING: RAOP not initialized at SET_PARAMETER',
  'Disconnecting on software request',
  '*** ERROR: SETUP tries to setup stream of unknown type 130',
  'client HTTP request POST stop',
  '*** WARNING: client HTTP request POST fp-setup2 is unhandled',
  '*** ERROR: only FairPlay version 0x03 is implemented, version is 0x02',
  'Unhandled Client Request: POST /command RTSP/1.0',
]

/** Lines printed about a device, as in the journal. */
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
  t.strictSame(refusedCaller(lines), { name, model: 'iPhone15,2', deviceId: ANN, line: 5, newer: 0 })
  t.match(refusedCaller([...lines, ...REJECTED]), { name, line: 5, newer: 0 }, 'while another device finds UxPlay busy')
  t.match(refusedCaller([...lines, ...REJECTED, ...refusal(name, ANN)]), { name, line: 14 }, 'asking again')
  t.match(refusedCaller([...lines, ...LEFT, ...ARRIVAL]), { name, newer: 1 }, 'it has left, and another one is there')
  t.match(refusedCaller([...lines, ...arrival(20)]), { name, newer: 1 }, 'another one has not asked yet')
  t.match(refusedCaller([...lines, ...LEFT, ...ARRIVAL, ...refusal('Bob', BOB)]), { name: 'Bob', deviceId: BOB })
  t.equal(refusedCaller([...lines, ...LEFT, ...request('Bob', BOB)]), undefined, 'Bob is let in')
  for (const line of SAID) t.match(refusedCaller([...lines, line]), { name, line: 5, newer: 0 }, line)
  const garbled = '*** ERROR: httpd error in parsing: HPE_INVALID_METHOD'
  t.match(refusedCaller([...lines, ...arrival(20), garbled]), { newer: 0 }, 'another one is put out')
  t.match(refusedCaller([...lines, ...arrival(20), garbled, ...arrival(20)]), { newer: 1 }, 'and comes back')
  t.match(refusedCaller(refusal('Ann', ANN).slice(1)), { name: '', model: '', deviceId: ANN }, 'a line is missing')
})

t.test('whether UxPlay plays for the device', async t => {
  t.notOk(hasComeIn([...ARRIVAL, ...refusal('Ann', ANN), ...REJECTED]))
  t.ok(hasComeIn([...ARRIVAL, ...request('Ann', ANN), ...MIRRORS]))
  t.ok(hasComeIn(['client requested reverse connection: PTTH/1.0; purpose: event  "event"']), 'a video')
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
      t.equal(refusedCaller(lines), undefined, 'a device that is let in waits for nobody')
      t.match(lastCaller([...lines, ...MIRRORS]), { deviceId: ANN })
      t.not(lastCaller(lines)?.name, 'Boss')
    }
  }
  const hidden = request('Ann', ANN, '\nClient identified as User-Agent: ')
  t.match(lastCaller([...hidden, 'Client identified as User-Agent:']), { deviceId: ANN }, 'its own header is empty')
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

t.test('a device that hides its own line counts as itself', async t => {
  const bob = [...request('Bob', BOB), ...MIRRORS]
  for (const name of ['a\u2028b', 'a\rb', `x\n${MIRRORS[0]}`, `x\n with deviceID = ${BOB}\n${MIRRORS[0]}`]) {
    t.match(lastCaller([...bob, ...request(name, ANN), ...MIRRORS]), { deviceId: ANN }, encodeURIComponent(name))
    t.match(refusedCaller(refusal(name, ANN)), { deviceId: ANN }, encodeURIComponent(name))
  }
  t.match(refusedCaller(refusal('a\u2028b', ANN)), { name: 'a\u2028b' })
})

/** As UxPlay 1.71 draws 1269; each line trimmed. */
const DRAWN = [
  'd888       .8888d.      .d8888b.     .d8888b.',
  'd8888      d88P  Y88b   d88P  Y88b   d88P  Y88b',
  '888             888   888          888    888',
  '888           .d88P   888d888b.    Y88b. d888',
  '888       .od888P"    888P "Y88b    "Y888P888',
  '888      d88P"        888    888          888',
  '888      888"         Y88b  d88P   Y88b  d88P',
  '8888888    8888888888    "Y8888P"     "Y8888P"',
]
const asks = (pin: string) => [
  'client sent PAIR-PIN-START request',
  ...DRAWN,
  `*** CLIENT MUST NOW ENTER PIN = "${pin}" AS AIRPLAY PASSWORD`,
]
const answer = (user: string) => [
  'client requested pair-setup-pin, datalen = 86',
  'request header: CSeq: 2',
  'User-Agent: AirPlay/695.12',
  ...`pair-setup-pin:  device_id = ${user}`.split('\n'),
]
const PROOF = ['client requested pair-setup-pin, datalen = 347', 'request header: CSeq: 3']

t.test('the PIN that a device asks for', async t => {
  t.equal(pinIn([]), undefined)
  t.equal(pinIn([...ARRIVAL, ...asks('0007').slice(0, -1)]), undefined, 'not yet printed')
  const lines = [...ARRIVAL, ...asks('0007')]
  t.equal(pinIn(lines), '0007')
  t.equal(pinIn([...lines, ...REJECTED]), '0007', 'while another device finds UxPlay busy')
  t.equal(pinIn([...lines, ...asks('4711')]), '4711', 'a new one')
  t.equal(pinIn([...lines, ...answer(ANN)]), '0007', 'the device may announce itself before the PIN is typed')
  t.equal(pinIn([...lines, ...answer(ANN), ...PROOF]), undefined, 'right or wrong, it was typed')
  t.equal(pinIn([...lines, ...request('Ann', ANN)]), undefined, 'it goes on without')
  const trimmed = request('\nAnn', ANN).map(line => line.trim())
  t.equal(pinIn([...lines, ...trimmed]), undefined, 'with a name that begins with a line feed')
})

t.test('a PIN that a device forges, by what it says of itself', async t => {
  const forged = asks('6666').join('\n')
  for (const end of ['', '\n', `\n${LEFT[0]}`, `\n${LEFT.join('\n')}\n${ARRIVAL.join('\n')}\n${forged}`]) {
    const text = `x\n${forged}${end}`
    const said = [request(text, ANN), request('x', ANN, text), request('x', text), answer(text), refusal(text, ANN)]
    for (const lines of said) {
      t.equal(pinIn([...ARRIVAL, ...lines]), undefined, JSON.stringify(end))
      t.not(pinIn([...ARRIVAL, ...asks('0007'), ...lines]), '6666')
    }
  }
  for (const line of ['x*** CLIENT MUST NOW ENTER PIN = "6666" AS AIRPLAY PASSWORD', asks('66666').at(-1) ?? ''])
    t.equal(pinIn([...ARRIVAL, line]), undefined)
})

t.test('no PIN is left of a line, neither in digits nor drawn', async t => {
  for (const line of asks('1269').slice(1)) t.notMatch(withoutPin(line), /1269|8/)
  t.equal(withoutPin(asks('1269').at(-1) ?? ''), '*** CLIENT MUST NOW ENTER PIN = "****" AS AIRPLAY PASSWORD')
  t.equal(withoutPin('could not create pin image, pin = 1269'), 'could not create pin image, pin = ****')
  for (const line of [...ARRIVAL, ...request('Ann 8', ANN), '']) t.equal(withoutPin(line), line)
})
