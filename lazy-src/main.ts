/** The process: its command line, its signals, its exit status. Nothing imports this. */
import { randomUUID } from 'node:crypto'
import { HalError } from '../hal/errors.ts'
import { Files } from '../hal/files/files.ts'
import { runCommand, System } from '../hal/os/system.ts'
import { generateKey, readKey, writeKey } from './auth/api-key.ts'
import { mint } from './auth/jwt.ts'
import { BUILT_AT, VERSION } from './build-info.ts'
import { parseCommand, type TokenRequest } from './cli.ts'
import { systemClock } from './clock.ts'
import { type Config, type Flags, readConfig, readStateDir, UsageError } from './config.ts'
import { SHUTDOWN_MS } from './limits.ts'
import { lineLog } from './log.ts'
import { startService } from './service.ts'
import { tellSupervisor } from './supervisor.ts'

const FAILED = 1
const WRONG_CALL = 2
const log = lineLog(line => process.stderr.write(line))
// A log that nobody takes any more is no reason to end.
process.stderr.on('error', () => undefined)
const print = (text: string) => process.stdout.write(text)

async function run(): Promise<void> {
  const command = parseCommand(process.argv.slice(2), VERSION)
  switch (command.name) {
    case 'serve':
      return serve(readConfig(command.flags, process.env, process.pid))
    case 'key show':
      return void print(`${await requireKey(stateOf(command.flags))}\n`)
    case 'key rotate':
      return rotateKey(stateOf(command.flags))
    case 'token':
      return void print(`${await mintToken(stateOf(command.flags), command.token)}\n`)
    case 'print':
      return void print(command.text)
  }
}

async function serve(config: Config): Promise<void> {
  const system = new System(config.root)
  const surroundings = {
    system,
    clock: systemClock,
    log,
    random: Math.random,
    newId: randomUUID,
    version: VERSION,
    builtAt: BUILT_AT,
  }
  const service = await startService(config, surroundings)
  log('info', `receiverd ${VERSION} listening on ${service.address}`)
  // Node 22.10 and later keep what they have compiled (NODE_COMPILE_CACHE), but write it down only when they end in
  // order: a device's service ends by a power cut.
  const nodeModule = process.getBuiltinModule?.('node:module') as { flushCompileCache?: () => void } | undefined
  nodeModule?.flushCompileCache?.()

  let isStopping = false
  const stop = async (signal: string) => {
    // A second signal, as when a terminal and a supervisor both send one, must not cut the first one's work short.
    if (isStopping) return
    isStopping = true
    log('info', `${signal}: stopping`)
    // Whatever has not ended by then does not keep the process.
    setTimeout(() => process.exit(), SHUTDOWN_MS)
    await service.close()
    process.exit()
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  await tellSupervisor({ env: process.env, run: runCommand, log }, () => service.status)
}

function stateOf(flags: Flags): Files {
  return new Files(readStateDir(flags, process.env))
}

async function requireKey(state: Files): Promise<string> {
  const key = await readKey(state)
  if (key === undefined)
    throw new HalError('UNREADABLE', 'there is no API key yet: start the service once, or run receiverd key rotate')
  return key
}

async function rotateKey(state: Files): Promise<void> {
  const key = generateKey()
  await writeKey(state, key)
  print(`${key}\n`)
}

async function mintToken(state: Files, { roles, expiresInMs, subject }: TokenRequest): Promise<string> {
  const iat = Math.floor(systemClock.now() / 1000)
  if (expiresInMs !== undefined && systemClock.now() < BUILT_AT)
    throw new HalError('UNREADABLE', 'the clock of this device is not set, so no time can be put into a token')
  const exp = expiresInMs === undefined ? undefined : iat + expiresInMs / 1000
  return mint(await requireKey(state), { roles, iat, exp, sub: subject })
}

run().catch((error: unknown) => {
  process.stderr.write(`receiverd: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = error instanceof UsageError ? WRONG_CALL : FAILED
})
