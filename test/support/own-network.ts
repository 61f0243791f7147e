import t, { type Test } from 'tap'

/** Set in the process that is in that network. */
const INSIDE = 'TEST_IN_OWN_NETWORK'

/**
 * Runs a test in its own network, for tests that make interfaces and addresses come and go: on such a change, Chromium breaks
 * off everything that it is loading.
 */
export function testInOwnNetwork(name: string, skip: string | false, act: (t: Test) => Promise<void>): void {
  if (process.env[INSIDE]) {
    t.test(name, { skip }, act)
    return
  }
  t.test('in a network of its own', { skip }, t => {
    const again = [process.execPath, ...process.execArgv, process.argv[1] ?? '']
    const inside = ['--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', ...again]
    return t.spawn('unshare', inside, { env: { ...process.env, [INSIDE]: '1' } }, 'inside')
  })
}
