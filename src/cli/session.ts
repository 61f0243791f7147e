import { constants } from 'node:os'
import type { Device } from '../../hal/engine.ts'
import { errorCode, reasonOf } from '../../hal/errors.ts'
import { type Argv, type Attached, attachCommand } from '../../hal/os/command.ts'
import { type EngineConnection, openSession, SessionRefused } from '../sessions/engine-client.ts'
import { CommandError } from './failure.ts'

export interface SessionRequest {
  readonly device: Device
  readonly argv: Argv
}

/** EX_TEMPFAIL of sysexits.h: try again later. */
export const DENIED = 75
/** Signals that would end this process and leave its command mirroring, in no session. */
const INTERRUPTS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']
/** Milliseconds between SIGTERM and SIGKILL. */
const KILL_MS = 5_000
const ENDED_POLL_MS = 50
/** Milliseconds to wait for the end of what was killed: it may hang in the kernel. */
const GONE_MS = 1_000
/** Milliseconds until a lost connection is reopened; doubled each time. */
const FIRST_RETRY_MS = 250
const LAST_RETRY_MS = 5_000

/**
 * Runs a command as a session: asks for admission, runs the command once admitted, and stops it when the session is ended.
 * When the command ends, all that it has started and not detached is stopped, too: nothing may mirror in no session.
 * The command keeps running while the service restarts, and while it is too busy to accept the session again.
 * @param engines The path of the engines' socket.
 * @param report Called with one line for the person who started the command.
 * @returns the exit status of the command, or `DENIED`.
 */
export async function runSession(
  { device, argv }: SessionRequest,
  engines: string,
  report: (line: string) => void,
): Promise<number> {
  let command: Attached | undefined
  let status: number | undefined
  /** Kept for the service, which forgets sessions when it restarts. */
  let id: string | undefined
  let since: string | undefined
  let link = NOWHERE
  let tellOver: () => void = () => undefined
  /** Resolves when the session is over, to cut short any wait: the service may take a while to answer. */
  const over = new Promise<EngineConnection>(resolve => {
    tellOver = () => resolve(NOWHERE)
  })
  const finish = (code: number) => {
    status = code
    link.close()
    tellOver()
  }
  const interrupt = (signal: NodeJS.Signals) => {
    if (command) command.kill(signal)
    else finish(128 + constants.signals[signal])
  }
  let stopping: Promise<void> | undefined
  const stop = (running: Attached) => {
    stopping ??= endAll(running)
    return stopping
  }
  for (const signal of INTERRUPTS) process.on(signal, interrupt)
  link = await Promise.race([connectFirst(engines, device), over])

  for (let retryMs = FIRST_RETRY_MS; ; retryMs = Math.min(2 * retryMs, LAST_RETRY_MS)) {
    for await (const line of link.lines) {
      const { state, reason } = line
      retryMs = FIRST_RETRY_MS
      id = line.id ?? id
      if (state === 'active') since = line.since
      if (state === 'pending') report('waiting for a moderator')
      else if (state === 'active' && !command && status === undefined) {
        report('let in')
        const started = await attachCommand(argv)
        command = started
        started.ended.then(async code => {
          await stop(started)
          finish(code)
        })
        // A signal arrived while the command was being started.
        if (status !== undefined) await stop(command)
      } else if (state === 'denied' && !command) {
        report(reason === 'full' ? 'denied: too many sessions' : `denied (${reason})`)
        link.close()
        return DENIED
      } else if (reason !== undefined && reason !== 'shutdown' && command) {
        report(`ended (${reason})`)
        await stop(command)
      }
    }
    link.close()
    if (status !== undefined) return status
    await Promise.race([sleep(retryMs), over])
    if (status !== undefined) return status
    const ask = command ? { ...device, state: 'active', id, since } : device
    try {
      link = await Promise.race([openSession(engines, ask), over])
    } catch (error) {
      link = NOWHERE
      if (!(error instanceof SessionRefused) || error.isPassing) continue
      // Nobody could end a command whose session is not listed.
      if (command) await stop(command)
      throw new CommandError(error.message)
    }
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}

/** Stands for a connection that could not be made. */
const NOWHERE: EngineConnection = { lines: (async function* () {})(), close: () => undefined }

async function connectFirst(engines: string, device: Device): Promise<EngineConnection> {
  try {
    return await openSession(engines, device)
  } catch (error) {
    if (error instanceof SessionRefused) throw new CommandError(error.message)
    const hint =
      errorCode(error) === 'EACCES'
        ? 'run it as root, or as a member of the group receiverd-engines'
        : 'is the service running?'
    throw new CommandError(`cannot connect to ${engines}: ${reasonOf(error)}; ${hint}`)
  }
}

async function endAll(command: Attached): Promise<void> {
  const killAt = performance.now() + KILL_MS
  let isRunning = command.kill('SIGTERM')
  while (isRunning && performance.now() < killAt) {
    await sleep(ENDED_POLL_MS)
    isRunning = command.kill(0)
  }
  if (isRunning) command.kill('SIGKILL')
  await command.ended
  // The kernel takes a moment to end the others.
  const goneBy = performance.now() + GONE_MS
  while (command.kill(0) && performance.now() < goneBy) await sleep(ENDED_POLL_MS)
}
