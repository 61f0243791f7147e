import { reasonOf } from '../hal/errors.ts'
import type { Run } from '../hal/os/command.ts'
import type { Environment } from './config.ts'
import type { Log } from './log.ts'

export interface SupervisorOptions {
  readonly env: Environment
  readonly run: Run
  readonly log: Log
}

/**
 * Tells systemd that the service is ready, then twice per watchdog period that it is alive (sd_notify(3),
 * sd_watchdog_enabled(3)). A process whose event loop is blocked sends nothing, and systemd restarts it. Node has no Unix
 * datagram sockets, so systemd-notify(1) does the sending. Does nothing if systemd did not start the process.
 * @param status Returns the line that `systemctl status` shows; called for each message.
 */
export async function tellSupervisor({ env, run, log }: SupervisorOptions, status: () => string): Promise<void> {
  const socket = env.NOTIFY_SOCKET
  if (!socket) return
  const tell = async (message: string) => {
    try {
      await run(['systemd-notify', `--status=${status()}`, message], { NOTIFY_SOCKET: socket })
    } catch (error) {
      log('error', `cannot notify systemd: ${reasonOf(error)}`)
    }
  }
  await tell('--ready')
  const periodMs = Number(env.WATCHDOG_USEC) / 1000
  if (periodMs > 0) setInterval(() => tell('WATCHDOG=1'), periodMs / 2).unref()
}
