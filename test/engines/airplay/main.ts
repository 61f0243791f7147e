/** The AirPlay client as a command. */
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { AirPlayClient, type Departure, MILESTONES, type Outcome } from './client.ts'
import { DEFAULTS } from './options.ts'
import type { Identity } from './pairing.ts'

const HELP = `usage: airplay [options]

Mirrors colour bars to an AirPlay receiver, as an iPhone would, and prints each step as a line of JSON.
Exit status: 0 done, 1 failed, 2 usage error, 3 refused, 4 receiver busy, 5 ended by the receiver.

  --host ADDRESS       address of the receiver (127.0.0.1)
  --port PORT          its control port (${DEFAULTS.port})
  --name NAME          name of the device (${DEFAULTS.name})
  --model MODEL        its model (${DEFAULTS.model})
  --id MAC             its device ID (${DEFAULTS.deviceId})
  --no-id              send no device ID
  --local ADDRESS      local address to connect from
  --timeout SECONDS    how long to wait for an answer (${DEFAULTS.timeoutMs / 1_000})

  --stay SECONDS       how long to mirror (3)
  --size WxH           pixels, multiples of 16 (${DEFAULTS.size.width}x${DEFAULTS.size.height})
  --fps N              pictures per second (${DEFAULTS.framesPerSecond})
  --no-video           do not open the video connection
  --no-feedback        send no keep-alive requests
  --mute-ntp SECONDS   stop answering timing requests after that long
  --end HOW            teardown, close, reset or hang (teardown)

  --until STEP         stop after ${MILESTONES.slice(0, -1).join(', ')}
  --pause SECONDS      wait after info
  --retry N            if refused, ask again up to N times, once a second (0)
  --wait-refused S     if refused, stay connected for S seconds or until the receiver disconnects (0)
  --come-back          if refused, stay until the receiver disconnects, and then try again, as a person would

  --no-pair            skip pairing
  --pin NNNN           pair with the PIN on the receiver's screen
  --returning          pair like a device that was paired before
  --key FILE           file for the device's key
  --pw PASSWORD        password of the receiver (UxPlay 1.72)
  --help               show this
`

const OPTIONS = {
  host: { type: 'string', default: '127.0.0.1' },
  port: { type: 'string' },
  name: { type: 'string' },
  model: { type: 'string' },
  id: { type: 'string' },
  'no-id': { type: 'boolean' },
  local: { type: 'string' },
  timeout: { type: 'string' },
  stay: { type: 'string', default: '3' },
  size: { type: 'string' },
  fps: { type: 'string' },
  'no-video': { type: 'boolean' },
  'no-feedback': { type: 'boolean' },
  'mute-ntp': { type: 'string' },
  end: { type: 'string', default: 'teardown' },
  until: { type: 'string', default: 'mirroring' },
  pause: { type: 'string' },
  retry: { type: 'string', default: '0' },
  'wait-refused': { type: 'string', default: '0' },
  'come-back': { type: 'boolean' },
  'no-pair': { type: 'boolean' },
  pin: { type: 'string' },
  returning: { type: 'boolean' },
  key: { type: 'string' },
  pw: { type: 'string' },
  help: { type: 'boolean' },
} as const

type Values = ReturnType<typeof readArguments>
/** Exit statuses. */
const STATUS = { refused: 3, busy: 4, ended: 5 }
const COME_BACK_MS = 1_000
const COME_BACK_TRIES = 10

function readArguments() {
  const { values } = parseArgs({ options: OPTIONS })
  for (const name of ['port', 'timeout', 'stay', 'fps', 'mute-ntp', 'pause', 'retry', 'wait-refused'] as const)
    if (!(Number(values[name] ?? 0) >= 0)) throw new Error(`--${name} needs a number`)
  const [width = 0, height = 0] = sizeOf(values.size)
  if (!(width > 0 && height > 0 && width % 16 === 0 && height % 16 === 0))
    throw new Error('--size is WIDTHxHEIGHT, in multiples of 16')
  if (!isOneOf(MILESTONES, values.until)) throw new Error(`--until is one of ${MILESTONES.join(', ')}`)
  if (!isOneOf(DEPARTURES, values.end)) throw new Error(`--end is one of ${DEPARTURES.join(', ')}`)
  return { ...values, until: values.until, end: values.end }
}

function sizeOf(text = `${DEFAULTS.size.width}x${DEFAULTS.size.height}`): number[] {
  return text.split('x').map(Number)
}

const DEPARTURES: readonly Departure[] = ['teardown', 'close', 'reset', 'hang']

function isOneOf<T extends string>(list: readonly T[], value: string): value is T {
  return list.some(item => item === value)
}

/** Reads a key from a file. Creates the file if it does not exist. */
function identityIn(file: string): Identity {
  if (!existsSync(file)) {
    const { privateKey } = generateKeyPairSync('ed25519')
    writeFileSync(file, privateKey.export({ format: 'pem', type: 'pkcs8' }), { mode: 0o600 })
  }
  const privateKey = createPrivateKey(readFileSync(file))
  return { privateKey, publicKey: createPublicKey(privateKey) }
}

function makeClient(values: Values): AirPlayClient {
  const [width = 0, height = 0] = sizeOf(values.size)
  const given = {
    port: values.port && Number(values.port),
    name: values.name,
    model: values.model,
    deviceId: values.id,
    timeoutMs: values.timeout && Number(values.timeout) * 1_000,
    size: { width, height },
    framesPerSecond: values.fps && Number(values.fps),
    identity: values.key && identityIn(values.key),
  }
  return new AirPlayClient({
    host: values.host,
    localAddress: values.local,
    pin: values.pin,
    password: values.pw,
    hasVideo: !values['no-video'],
    hasFeedback: !values['no-feedback'],
    pairing: values['no-pair'] ? 'none' : values.returning ? 'returning' : 'full',
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    ...(values['no-id'] ? { deviceId: undefined } : {}),
  })
}

/** Prints a client's events. */
function follow(client: AirPlayClient): void {
  const began = performance.now()
  const say = (event: string, details: object = {}) =>
    console.log(JSON.stringify({ t: Math.round(performance.now() - began), event, ...details }))
  client.on('step', (name, details) => say(name, details))
  client.on('connected', local => say('connected', { local }))
  client.on('refused', reason => say('refused', { reason }))
  client.on('admitted', () => say('admitted'))
  client.on('mirroring', () => say('mirroring'))
  client.on('ended', reason => say('ended', { reason, frames: client.frames }))
  client.on('left', how => say('left', { how, frames: client.frames, timingRequests: client.timingRequests }))
}

/** Until the receiver lets it in, or is gone. */
async function playAndComeBack(values: Values): Promise<number> {
  for (let failures = 0; ; ) {
    const client = makeClient(values)
    follow(client)
    try {
      const status = await play(client, values)
      if (status !== STATUS.refused || !values['come-back']) return status
      failures = 0
    } catch (error) {
      // While it restarts, it does not listen.
      if (!values['come-back'] || ++failures === COME_BACK_TRIES) throw error
    }
    await sleep(COME_BACK_MS)
  }
}

async function play(client: AirPlayClient, values: Values): Promise<number> {
  const { until } = values
  const pause = Number(values.pause ?? 0)
  let outcome: Outcome = await client.advance('info')
  if (outcome === 'info' && until !== 'info') {
    await sleep(pause * 1_000)
    outcome = await client.advance(until)
  }
  for (let retries = Number(values.retry); outcome === 'refused' && retries > 0; retries--) {
    await sleep(1_000)
    outcome = await client.advance(until)
  }
  if (outcome === 'busy') return STATUS.busy
  const ended = client.ended().then(() => 'ended')
  if (outcome === 'refused') {
    await Promise.race([ended, ...(values['come-back'] ? [] : [sleep(Number(values['wait-refused']) * 1_000)])])
    await client.leave('close')
    return STATUS.refused
  }
  if (outcome === 'mirroring') {
    if (values['mute-ntp'] !== undefined) setTimeout(() => client.muteTiming(), Number(values['mute-ntp']) * 1_000)
    if ((await Promise.race([sleep(Number(values.stay) * 1_000), ended])) === 'ended') return STATUS.ended
  }
  await client.leave(values.end)
  if (values.end === 'hang') await ended
  return 0
}

let values: Values
try {
  values = readArguments()
} catch (error) {
  console.error(`airplay: ${error instanceof Error ? error.message : error}`)
  process.exit(2)
}
if (values.help) process.stdout.write(HELP)
else
  playAndComeBack(values).then(
    status => process.exit(status),
    error => {
      console.log(JSON.stringify({ event: 'failed', reason: error.message }))
      process.exit(1)
    },
  )
