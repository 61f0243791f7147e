import { reasonOf } from '../hal/errors.ts'
import type { Run } from '../hal/os/system.ts'
import type { Environment } from './config.ts'
import type { Log } from './log.ts'

export interface SupervisorOptions {
  readonly env: Environment
  readonly run: Run
  readonly log: Log
}

/**
 * Tells systemd that the service is ready, and from then on twice in each period of its watchdog that it still runs
 * (sd_notify(3), sd_watchdog_enabled(3)): a process whose event loop stands still tells nothing, and is restarted. Node
 * has no socket for it, so systemd-notify(1) sends. Without systemd nothing is told.
 * @param status One line for `systemctl status`, asked for each time.
 */
export async function tellSupervisor({ env, run, log }: SupervisorOptions, status: () => string): Promise<void> {
  const socket = env.NOTIFY_SOCKET
  if (!socket) return
  const tell = async (message: string) => {
    try {
      await run(['env', `NOTIFY_SOCKET=${socket}`, 'systemd-notify', `--status=${status()}`, message])
    } catch (error) {
      log('error', `systemd cannot be told how the service is: ${reasonOf(error)}`)
    }
  }
  await tell('--ready')
  const periodMs = Number(env.WATCHDOG_USEC) / 1000
  if (periodMs > 0) setInterval(() => tell('WATCHDOG=1'), periodMs / 2).unref()
}
