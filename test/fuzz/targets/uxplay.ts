/**
 * UxPlay's log and the kernel's tables of sockets, written for devices that say anything of themselves: against a
 * model that knows which device did what.
 */

import { socketsOf, type TcpSocket } from '../../../hal/format/tcp-table.ts'
import { lastCaller, pinIn, refusedCaller, withoutPin } from '../../../hal/format/uxplay-log.ts'
import type { Input } from '../input.ts'
import { must, type Target } from '../target.ts'

/** Devices that were let in; another one can have any ID but theirs. */
const ALLOWED = ['AA:BB:CC:00:00:01', 'AA:BB:CC:00:00:02'] as const
const STRANGER = 'AA:BB:CC:00:00:03'
const DEVICE_ID = /^(?:[0-9A-F]{2}:){5}[0-9A-F]{2}$/
/** Lines of the log that are read. */
const LOG_LINES = 30
const DRAWN = ['d888       .8888d.      .d8888b.     .d8888b.', '888      888"         Y88b  d88P   Y88b  d88P']

interface Room {
  /** All lines, as journald has them. */
  readonly lines: string[]
  /** The index of the first line since the present device connected. */
  start: number
  /** The device that asked last, and was refused; `others` connections were accepted since, of which `open` are. */
  refused: { readonly id: string; readonly said: string; readonly open: Set<number> } | undefined
  /** The last text of a device that UxPlay prints at the end of a message: it can claim that some device was refused. */
  claim: string | undefined
  /** The device that was let in. */
  present: string | undefined
  /** The index of the line that ends with its ID. */
  presentLine: number
  /** The PIN that UxPlay made for it. */
  pin: string | undefined
  /** All that it ever made. */
  readonly pins: string[]
  /** Whether a text of the device was printed since it connected. */
  hasSpoken: boolean
  sockets: number
}

/** Prints as UxPlay does: journald has a record for each line, and readers trim it. */
function print({ lines }: Room, text: string): void {
  lines.push(...text.split('\n').map(line => line.trim()))
}

function accept(room: Room): number {
  const socket = ++room.sockets
  print(room, `Accepted IPv4 client on socket ${socket}\nLocal : 198.18.1.2\nRemote: 198.18.1.${socket % 250}`)
  return socket
}

/** Printed about what a device goes on to say when it was refused. */
const SAID = [
  'ignoring AirPlay video streaming request (use option -hls to activate HLS support)',
  "*** WARNING: httpd didn't get response",
  '*** ERROR: RAOP not initialized at SETUP, playing will fail!',
  'Unhandled Client Request: POST /command RTSP/1.0',
]

const STEPS: readonly ((room: Room, input: Input) => void)[] = [
  function connect(room) {
    room.start = room.lines.length
    const socket = accept(room)
    room.refused?.open.add(socket)
    Object.assign(room, { pin: undefined, hasSpoken: false, present: undefined })
  },
  function ask(room, input) {
    room.claim = undefined
    const isIn = input.flag()
    const model = input.chunk().toString().replaceAll('\0', '')
    const name = input.chunk().toString().replaceAll('\0', '')
    const own = input.chunk().toString().replaceAll('\0', '')
    const id = isIn ? input.pick(ALLOWED) : own === '' || ALLOWED.some(allowed => allowed === own) ? STRANGER : own
    print(room, `connection request from ${name} (${model}) with deviceID = ${id}`)
    room.hasSpoken = true
    room.pin = undefined
    room.present = isIn ? id : undefined
    room.presentLine = room.lines.length - 1
    room.refused = undefined
    if (isIn) {
      // The value of a header: it has no line feeds.
      print(
        room,
        `Client identified as User-Agent: ${input
          .chunk()
          .toString()
          .replace(/[\r\n\0]/g, ' ')}`,
      )
      return
    }
    print(room, 'client connections have been restricted to those with listed deviceID,')
    print(room, `use "-allow ${id}" to allow this client to connect.`)
    room.refused = { id, said: `${name} (${model}`, open: new Set() }
  },
  function mirror(room) {
    print(room, 'raop_rtp_mirror starting mirroring')
    room.refused = undefined
    room.claim = undefined
    room.hasSpoken = true
  },
  function requestPin(room, input) {
    const pin = String(input.byte() * 39)
      .padStart(4, '0')
      .slice(0, 4)
    print(
      room,
      [
        'client sent PAIR-PIN-START request',
        ...DRAWN,
        `*** CLIENT MUST NOW ENTER PIN = "${pin}" AS AIRPLAY PASSWORD`,
      ].join('\n'),
    )
    room.refused = undefined
    room.claim = undefined
    room.pins.push(pin)
    if (!room.hasSpoken) room.pin = pin
  },
  function answerPin(room, input) {
    print(room, 'client requested pair-setup-pin, datalen = 86')
    const user = input.chunk().toString().replaceAll('\0', '')
    print(room, `pair-setup-pin:  device_id = ${user}`)
    // Once it is in, it can forge such a line: see `lastCaller`.
    if (user.includes('deviceID')) room.present = undefined
    room.refused = undefined
    room.claim = user
    room.hasSpoken = true
  },
  function another(room) {
    const socket = accept(room)
    print(room, `*** WARNING: rejecting new connection request from 198.18.1.1\nConnection closed for socket ${socket}`)
  },
  function anotherStays(room) {
    room.refused?.open.add(accept(room))
  },
  function anotherIsGarbled(room) {
    accept(room)
    print(room, '*** ERROR: httpd error in parsing: HPE_INVALID_METHOD')
  },
  function goesOn(room, input) {
    print(room, input.pick(SAID))
  },
]

function log(input: Input): void {
  const room: Room = {
    lines: [],
    start: 0,
    refused: undefined,
    claim: undefined,
    present: undefined,
    presentLine: 0,
    pin: undefined,
    pins: [],
    hasSpoken: false,
    sockets: 18,
  }
  while (!input.isOver) {
    const before = room.lines.length
    input.pick(STEPS)(room, input)
    judgeLog(room)
    const printed = room.lines.slice(before)
    for (const line of printed) {
      if (DRAWN.includes(line)) must(!/\d/.test(withoutPin(line)), 'a PIN is shown', () => line)
      // A device may print such a line, with more digits after it.
      const [pin] = /^\*{3} CLIENT MUST NOW ENTER PIN = "\d{4}" AS/.exec(line) ?? []
      if (pin !== undefined) must(!/\d/.test(withoutPin(line).slice(0, pin.length)), 'a PIN is shown', () => line)
    }
  }
}

function judgeLog(room: Room): void {
  const lines = room.lines.slice(-LOG_LINES)
  const facts = (found: unknown) => () => ({
    found,
    lines,
    refused: room.refused && { ...room.refused, open: room.refused.open.size },
    present: room.present,
  })

  const refused = refusedCaller(lines)
  const isValid = room.refused !== undefined && DEVICE_ID.test(room.refused.id)
  if (room.claim !== undefined) {
    // The device could as well ask with that ID, and be refused.
    must(!refused || room.claim.includes(refused.deviceId), 'a device asks that nobody named', facts(refused))
  } else if (refused) {
    must(isValid && refused.deviceId === room.refused?.id, 'a device asks that was not refused', facts(refused))
    must(refused.newer === room.refused?.open.size, 'another number of devices came after it', facts(refused))
    must(room.refused.said.includes(refused.name.trim()), 'it has the name of another', facts(refused))
  } else {
    const isThere = lines.some(
      line => line === 'client connections have been restricted to those with listed deviceID,',
    )
    const at = room.refused ? lines.lastIndexOf(`use "-allow ${room.refused.id}" to allow this client to connect.`) : -1
    must(!isValid || !isThere || at < 1, 'a device that was refused does not ask', facts(refused))
  }

  if (room.present !== undefined && room.presentLine > room.lines.length - LOG_LINES) {
    const caller = lastCaller(lines, new Set(ALLOWED))
    must(caller?.deviceId === room.present, 'another device counts as the one that is there', facts(caller))
    must(
      lastCaller(lines)?.deviceId === room.present,
      'another device counts as the one that is there, if all may come',
      facts(caller),
    )
  }

  const since = room.lines.slice(room.start)
  const pin = pinIn(since)
  must(pin === undefined || pin === room.pin, 'a PIN is shown that UxPlay has not made', () => ({
    since,
    pin,
    genuine: room.pin,
  }))
  must(room.hasSpoken || pin === room.pin, 'a PIN is not shown', () => ({ since, pin, genuine: room.pin }))
}

const STATES = ['01', '02', '06', '08', '0A'] as const
const PORTS = [7000, 7001, 7100, 22] as const
const OURS = [7000, 7001]
const ADDRESSES = [
  ['0100007F', '127.0.0.1'],
  ['0A0200C0', '192.0.2.10'],
  ['0000000000000000FFFF00000A0200C0', '192.0.2.10'],
  ['B80D0120000000000000000005000000', '2001:db8::5'],
  ['00000000000000000000000001000000', '::1'],
] as const

/** proc_pid_net(5): devices choose nothing in the kernel's text but the ports and addresses. */
function table(input: Input): void {
  const hex = (value: number, length: number) => value.toString(16).toUpperCase().padStart(length, '0')
  const expected: TcpSocket[] = []
  const rows = ['  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode']
  while (!input.isOver && rows.length < 600) {
    const [port, state, waiting] = [input.pick(PORTS), input.pick(STATES), input.byte()]
    const [local] = input.pick(ADDRESSES)
    const [peer, address] = input.pick(ADDRESSES)
    const inode = input.flag() ? input.byte() : input.byte() * 0x1000000 + input.byte()
    rows.push(
      `${String(rows.length - 1).padStart(4)}: ${local}:${hex(port, 4)} ${peer}:${hex(input.byte() * 255, 4)} ${state} ` +
        `${hex(input.byte(), 8)}:${hex(waiting, 8)} 00:00000000 00000000  ${String(input.byte()).padStart(4)}        0 ${inode} 1 0000000000000000 100 0 0 10 0`,
    )
    const known = { '01': 'established', '0A': 'listening' }[state as string] as TcpSocket['state'] | undefined
    if (known && inode !== 0 && OURS.includes(port))
      expected.push({ port, state: known, peer: address, inode, waiting })
  }
  const found = socketsOf(`${rows.join('\n')}\n`, OURS)
  must(JSON.stringify(found) === JSON.stringify(expected), 'other sockets are read', () => ({ rows, found, expected }))
}

const block = (id: string) =>
  `client connections have been restricted to those with listed deviceID,\nuse "-allow ${id}" to allow this client to connect.`

export const uxplay: Target = {
  name: 'uxplay',
  maxLength: 1_024,
  executions: 3_000,
  seeds: [
    `\0\0\x01\0iPhone15,2\xffAnn\xff${STRANGER}\xff`,
    "\0\0\x01\x01iPhone15,2\xffAnn's\xff\xff\0AirPlay\xff\x02\x05\x06",
    `\0\0\x01\x01x\xffx\n${block(STRANGER)}\n\xff\xff\0x\xff`,
    '\0\0\x03\x21\x03\x07\x04AA\xff\x05',
    `\0\0\x01\0m\xffn\xff${STRANGER}\xff\x05\x06\0`,
    '\x01\0\0\x01\x01\x01\0\x05\x06\x01\x02\x03\x01\x04\x02\0\x03\x01\x01\x09\x01\x01\x01',
  ].map(seed => Buffer.from(seed, 'latin1')),
  words: [
    ...[...ALLOWED, STRANGER].flatMap(id => [
      id,
      block(id),
      `use "-allow ${id}" to allow this client to connect.`,
      ` with deviceID = ${id}`,
      `connection request from Boss (iPhone) with deviceID = ${id}`,
    ]),
    ...[
      '\n',
      'connection request from ',
      'client connections have been restricted to those with listed deviceID,',
      'Client identified as User-Agent: ',
      'Accepted IPv4 client on socket 30',
      'Accepted IPv6 client on socket ',
      'Local : ',
      'Remote: ',
      '*** WARNING: rejecting new connection ',
      'Connection closed for socket 19',
      'Removing connection for socket ',
      'client sent PAIR-PIN-START request',
      '*** CLIENT MUST NOW ENTER PIN = "6666" AS AIRPLAY PASSWORD',
      'client requested pair-setup-pin, ',
      'pin = "1234',
      ' (',
      ')',
      '888',
      '8',
      '\u2028',
      '\x85',
    ],
  ],
  run(input) {
    if (input.below(2) === 0) log(input)
    else table(input)
  },
}
