import { reasonOf } from '../hal/errors.ts'
import type { Run } from '../hal/os/command.ts'
import { Serial } from '../hal/serial.ts'
import type { Environment } from './config.ts'
import type { Log } from './log.ts'

export interface SupervisorOptions {
  readonly env: Environment
  readonly run: Run
  readonly log: Log
  /** Milliseconds before a lost message is sent again. */
  readonly retryMs?: number
}

/** Number of attempts. Each may take 5 s: all of them take less than half of the watchdog's minute. */
const TRIES = 4

/**
 * Tells systemd that the service is ready, then twice per watchdog period that it is alive (sd_notify(3),
 * sd_watchdog_enabled(3)). A process whose event loop is blocked sends nothing, and systemd restarts it. Node has no Unix
 * datagram sockets, so systemd-notify(1) does the sending. Does nothing if systemd did not start the process.
 * @param status Returns the line that `systemctl status` shows; called for each message.
 */
export async function tellSupervisor(
  { env, run, log, retryMs = 1_000 }: SupervisorOptions,
  status: () => string,
): Promise<void> {
  const socket = env.NOTIFY_SOCKET
  if (!socket) return
  const tell = async (message: string) => {
    // systemd-notify waits 5 s for systemd to read the message. If systemd is busy for longer, the message is lost.
    for (let left = TRIES; left > 0; left--)
      try {
        return void (await run(['systemd-notify', `--status=${status()}`, message], { NOTIFY_SOCKET: socket }))
      } catch (error) {
        if (left === 1) log('error', `cannot notify systemd: ${reasonOf(error)}`)
        else await new Promise(resolve => setTimeout(resolve, retryMs))
      }
  }
  await tell('--ready')
  const periodMs = Number(env.WATCHDOG_USEC) / 1000
  const queue = new Serial()
  // Sends one message at a time, however long systemd is busy.
  const alive = () => queue.length === 0 && queue.run(() => tell('WATCHDOG=1'))
  if (periodMs > 0) setInterval(alive, periodMs / 2).unref()
}
