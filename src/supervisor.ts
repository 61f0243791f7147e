import { reasonOf } from '../hal/errors.ts'
import type { Run } from '../hal/system.ts'
import type { Environment } from './config.ts'
import type { Log } from './log.ts'

export interface SupervisorOptions {
  readonly env: Environment
  readonly pid: number
  readonly run: Run
  readonly log: Log
}

/**
 * Tells systemd that the service is ready, and from then on twice in each period of its watchdog that it still runs
 * (sd_notify(3), sd_watchdog_enabled(3)): a process whose event loop stands still tells nothing, and is restarted. Node
 * has no socket for it, so systemd-notify(1) sends. Without systemd nothing is told.
 * @param status One line for `systemctl status`, asked for each time.
 */
export async function tellSupervisor({ env, pid, run, log }: SupervisorOptions, status: () => string): Promise<void> {
  const socket = env.NOTIFY_SOCKET
  if (!socket) return
  let said = ''
  const tell = async (...message: string[]) => {
    try {
      await run(['env', `NOTIFY_SOCKET=${socket}`, 'systemd-notify', `--status=${status()}`, ...message])
      said = ''
    } catch (error) {
      if (said !== reasonOf(error)) log('error', `systemd cannot be told how the service is: ${reasonOf(error)}`)
      said = reasonOf(error)
    }
  }
  await tell('--ready')
  const isForUs = env.WATCHDOG_PID === undefined || env.WATCHDOG_PID === String(pid)
  const periodMs = Number(env.WATCHDOG_USEC) / 1000
  if (isForUs && periodMs > 0) setInterval(() => tell('WATCHDOG=1'), periodMs / 2).unref()
}
