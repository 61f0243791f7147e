/** A command of the shell that shows what a machine is doing, or waits for: for the reader of a test that has failed. */
export const MACHINE_STATE = [
  'uptime',
  'cat /proc/pressure/*',
  'systemctl list-jobs --no-pager',
  'ip -brief address',
  'ps ax',
  'journalctl --boot --no-pager --lines 60 --output short-monotonic || true',
].join('; ')
