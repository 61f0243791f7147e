/** The process: its command line, its signals, its exit status. Nothing imports this file. */
import { randomUUID } from 'node:crypto'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode, reasonOf } from '../hal/errors.ts'
import { Files } from '../hal/files/files.ts'
import { runCommand } from '../hal/os/command.ts'
import { claimFolder } from '../hal/os/lock.ts'
import { missingTools } from '../hal/os/missing-tools.ts'
import { Rauc } from '../hal/os/rauc.ts'
import { reboot } from '../hal/os/reboot.ts'
import { System } from '../hal/os/system.ts'
import { registry } from '../hal/registry.ts'
import { BUILT_PAGE } from './api/built-page.ts'
import { configurationSchema } from './api/system.ts'
import { JUDGE } from './auth/authenticator.ts'
import { BUILT_AT, VERSION } from './build-info.ts'
import { type Command, parseCommand } from './cli/cli.ts'
import { issuersThatStay, makeToken, passingToken, rotateKey, showAccess, showKey } from './cli/commands.ts'
import { discover } from './cli/discover.ts'
import { CommandError, describeFailure } from './cli/failure.ts'
import { personAt, requireAsking } from './cli/person.ts'
import { ServiceClient } from './cli/service-client.ts'
import { runSession } from './cli/session.ts'
import { loadSettings, saveSettings, writeSettings } from './cli/settings.ts'
import { discardUpdate, installUpdate, rollBack, updateStatus } from './cli/update.ts'
import { systemClock } from './clock.ts'
import {
  type Config,
  type Flags,
  readAddress,
  readConfig,
  readEnginesPath,
  readRoot,
  readStateDir,
  readTlsPort,
  readUpdateFolder,
  requireNode,
  unknownVariables,
} from './config.ts'
import { HTTPS_PORT } from './http/address.ts'
import { REBOOT_MS, SHUTDOWN_MS } from './limits.ts'
import { readListening } from './listening.ts'
import { lineLog } from './log.ts'
import { startService } from './service.ts'
import { tellSupervisor } from './supervisor.ts'
import { finishReset, orderReset } from './system/factory-reset.ts'
import { ImageReset } from './system/image-reset.ts'
import { look } from './update/checks.ts'
import { judge } from './update/judge.ts'
import { TrialRecords } from './update/trial.ts'
import { UsageError } from './usage-error.ts'

const FAILURE = 1
const USAGE_ERROR = 2
/**
 * How long a failed start waits before it exits if systemd will repeat it: after 200 ms, or at once for a client that waits
 * at the socket. An immediate restart is right after a crash, but a start that failed is likely to fail again.
 */
const FAILED_START_PAUSE_MS = 5_000

const { env } = process
/** Whether systemd runs the service: it reads the log with priorities, and repeats a failed start. */
const isSupervised = env.NOTIFY_SOCKET !== undefined && process.argv.includes('serve')
const log = lineLog(line => process.stderr.write(line))
// Keep running if stderr's reader goes away (EPIPE).
process.stderr.on('error', () => undefined)
process.stdout.on('error', error => {
  complain(`cannot write to stdout: ${reasonOf(error)}`)
  process.exit(FAILURE)
})
const print = (line: string) => process.stdout.write(`${line}\n`)
const complain = (message: string) => process.stderr.write(`receiverd: ${message}\n`)

async function run(command: Command): Promise<void> {
  if (command.name === 'print') return void process.stdout.write(command.text)
  for (const warning of unknownVariables(env))
    if (command.name === 'serve') log('warning', warning)
    else complain(`warning: ${warning}`)
  const { flags } = command
  switch (command.name) {
    case 'serve':
      return serve(readConfig(flags, env, process.pid))
    case 'key show':
      if (!command.isVerbose) return void print(await showKey(stateOf(flags)))
      return void print(await showAccess(stateOf(flags), new System(readRoot(flags, env)), env))
    case 'key rotate': {
      // Scripts read the key from standard output, and need it even if the rest fails.
      print(await rotateKey(stateOf(flags), command.keyFile && (await readGiven(command.keyFile, '--key-file'))))
      const stay = await issuersThatStay(new System(readRoot(flags, env)), command.removesIssuers)
      if (stay !== undefined) complain(stay)
      return
    }
    case 'config save': {
      const { file = '-', withIdentity } = command
      const text = await saveSettings(await serviceOf(flags, 'admin:r'), schemaOf(flags), withIdentity)
      if (file === '-') process.stdout.write(text)
      else await writeSettings(file, text)
      return
    }
    case 'config load': {
      const { file, options } = command
      requireAsking('config load', options.isSure, file === '-')
      const text = await readGiven(file, 'config load')
      return loadSettings(await serviceOf(flags, 'admin:rw'), schemaOf(flags), text, options, personAt(process))
    }
    case 'update status':
      for (const line of await updateStatus(await serviceOf(flags, 'admin:r', 'update'))) print(line)
      return
    case 'update install': {
      const { file, choices } = command
      const bundle = await new Files('/').openLarge(resolve(file))
      if (!bundle) throw new CommandError(`${command.name}: there is no ${file}`)
      try {
        requireAsking(command.name, choices.isSure)
        const client = await serviceOf(flags, 'admin:rw', 'update')
        await installUpdate(client, bundle, choices, personAt(process), { wait: sleep, now: () => performance.now() })
      } finally {
        bundle.close()
      }
      return
    }
    case 'update discard':
      requireAsking(command.name, command.isSure)
      return discardUpdate(await serviceOf(flags, 'admin:rw', 'update'), command.isSure, personAt(process))
    case 'update rollback':
      requireAsking(command.name, command.isSure)
      return rollBack(await serviceOf(flags, 'admin:rw', 'update'), command.isSure, personAt(process))
    case 'session':
      process.exit(await runSession(command.session, readEnginesPath(flags, env), complain))
      break
    case 'discover':
      return void print(await discover(runCommand, command.isJson))
    case 'update judge':
      // The unit restarts the device (receiverd-judge.service).
      process.exit((await judgeVersion(flags)) ? 0 : FAILURE)
      break
    case 'token':
      return void print(await makeToken(stateOf(flags), command.token, systemClock.now(), BUILT_AT))
  }
}

async function serve(config: Config): Promise<void> {
  await claimState(config.stateDir)
  warnOfKeyInImage(config)
  const system = new System(config.root)
  const state = new Files(config.stateDir)
  const imageReset = config.reset && system.isRunning ? new ImageReset(system, config.reset) : undefined
  if (await (imageReset ? imageReset.isDue(log) : resetAtStart(state, system))) return restartDevice(system)
  await imageReset?.reserve(log)

  let isStopping = false
  /** Ends requests and streams. Resolves with true if this call did so, and false if an earlier one did. */
  const close = async (why: string, statusIfLate = 0) => {
    // A second signal, as when a terminal and a supervisor both send one, must not cut the shutdown short.
    if (isStopping) return false
    isStopping = true
    log('info', `${why}: stopping`)
    // Anything still open at the deadline must not keep the process alive.
    const deadline = setTimeout(() => process.exit(statusIfLate), SHUTDOWN_MS)
    // It answers requests before all of it is started. A start that fails has nothing to close.
    await starting.then(
      service => service.close(),
      () => undefined,
    )
    clearTimeout(deadline)
    return true
  }
  const stop = async (signal: string) => {
    if (await close(signal)) process.exit()
  }
  const reset = async () => {
    // If the shutdown is late, the next start does the rest.
    if (!(await close('factory reset', FAILURE))) return
    if (!imageReset) await finishReset(state, system, log)
    await restartDevice(system)
  }
  const surroundings = {
    system,
    clock: systemClock,
    log,
    random: Math.random,
    newId: randomUUID,
    version: VERSION,
    builtAt: BUILT_AT,
    orderReset: (forgetsCard: boolean) => imageReset?.order(forgetsCard) ?? orderReset(state, forgetsCard),
    reset: () => void reset().catch(fail),
    page: BUILT_PAGE,
  }
  const starting = startService(config, surroundings)
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  const service = await starting
  log('info', `receiverd ${VERSION} listening on ${service.addresses.join(' and ')}`)
  // Elsewhere than on a device, missing tools do not matter. Storage that fails must not end a service that works.
  const missing = config.root === '/' ? await missingTools(system).catch(() => []) : []
  for (const tool of missing) log('notice', tool)
  // Node 22.10 and later cache the compiled code (NODE_COMPILE_CACHE), but write it only at an orderly exit. The service
  // of a device usually ends with a power cut.
  const nodeModule = process.getBuiltinModule?.('node:module') as { flushCompileCache?: () => void } | undefined
  nodeModule?.flushCompileCache?.()
  await tellSupervisor({ env, run: runCommand, log }, () => service.status)
}

/** Returns whether a factory reset was finished. Failing storage must not make the device unreachable. */
async function resetAtStart(state: Files, system: System): Promise<boolean> {
  return finishReset(state, system, log).catch(error => {
    log('error', `factory reset: ${reasonOf(error)}; the device is served as it is, and the next start tries again`)
    return false
  })
}

/** Restarts the device, and waits until systemd stops this program. */
async function restartDevice(system: System): Promise<void> {
  process.on('SIGTERM', () => process.exit())
  await reboot(system)
  const error = new CommandError('the device has not restarted after its factory reset: restart it')
  setTimeout(() => fail(error), REBOOT_MS)
}

/** Warns before an image is made: devices that are flashed from one image must not share a key. */
function warnOfKeyInImage({ root, stateDir }: Config): void {
  if (root !== '/' && stateDir.startsWith(`${root}/`))
    log(
      'warning',
      `the API key is kept in ${stateDir}: delete that folder before you make an image of ${root}; no image may hold a key`,
    )
}

/** Claims the state directory: two services on one directory would undo each other's changes. */
async function claimState(folder: string): Promise<void> {
  try {
    await claimFolder(folder)
  } catch (error) {
    if (errorCode(error) === 'IN_USE') throw new CommandError(`another receiverd is using ${folder}`)
    if (errorCode(error) !== 'COMMAND_FAILED') throw error
    log('warning', `cannot tell whether another receiverd is using ${folder}: ${reasonOf(error)}`)
  }
}

/** Returns the text of a file, or of standard input for `-`. @throws {CommandError} if it cannot be read. */
async function readGiven(path: string, name: string): Promise<string> {
  try {
    if (path === '-') return Buffer.concat(await process.stdin.toArray()).toString()
    const text = await new Files('/').readText(resolve(path))
    if (text !== undefined) return text
  } catch (error) {
    throw new CommandError(`${name}: ${reasonOf(error)}`)
  }
  throw new CommandError(`${name}: there is no ${path}`)
}

/** @param group The group of commands, for the log. */
async function serviceOf(flags: Flags, role: string, group = 'config'): Promise<ServiceClient> {
  const isGiven = flags.listen !== undefined || Boolean(env.RECEIVERD_LISTEN)
  const recorded = isGiven ? undefined : await readListening(new System(readRoot(flags, env)))
  const address = recorded?.api ?? readAddress(flags, env)
  const key = await showKey(stateOf(flags))
  return new ServiceClient(address, () =>
    passingToken(key, { roles: [role], subject: `receiverd ${group}` }, systemClock.now(), BUILT_AT),
  )
}

/** Returns whether to keep the running version. */
async function judgeVersion(flags: Flags): Promise<boolean> {
  const folder = readUpdateFolder(env)
  if (folder === undefined) throw new UsageError('update judge: RECEIVERD_UPDATE names no folder')
  const system = new System(readRoot(flags, env))
  const token = async () =>
    passingToken(await showKey(stateOf(flags)), { roles: ['admin:r'], subject: JUDGE }, systemClock.now(), BUILT_AT)
  // At each look: the service may have yet to start.
  const doors = async () => {
    const { api = readAddress(flags, env), tlsPort = readTlsPort(env) ?? HTTPS_PORT } =
      (await readListening(system)) ?? {}
    return { api, tlsPort, token }
  }
  return judge({
    rauc: new Rauc(system),
    records: new TrialRecords(new Files(folder)),
    look: async expect => look(system, expect, await doors()),
    pace: { now: () => performance.now(), wait: ms => new Promise(resolve => setTimeout(resolve, ms)) },
    clock: systemClock,
    builtAt: BUILT_AT,
    log,
  })
}

function schemaOf(flags: Flags) {
  return configurationSchema(registry(new System(readRoot(flags, env))))
}

function stateOf(flags: Flags): Files {
  return new Files(readStateDir(flags, env))
}

function fail(error: unknown): void {
  const message = describeFailure(error, process.getuid?.() === 0)
  const status = error instanceof UsageError ? USAGE_ERROR : FAILURE
  if (isSupervised) {
    log('error', message)
    setTimeout(() => process.exit(status), FAILED_START_PAUSE_MS)
  } else {
    complain(message)
    process.exit(status)
  }
}

async function main(): Promise<void> {
  try {
    requireNode(process.versions.node)
    await run(parseCommand(process.argv.slice(2), VERSION))
  } catch (error) {
    fail(error)
  }
}

main()
