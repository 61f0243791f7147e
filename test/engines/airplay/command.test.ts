import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { freePort } from '../../support/port.ts'

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url))

function airplay(...args: readonly string[]): Promise<{ status: number | null; stdout: string; stderr: string }> {
  return new Promise(resolve => {
    const child = execFile(process.execPath, ['--import=tsx', MAIN, ...args], (_, stdout, stderr) =>
      resolve({ status: child.exitCode, stdout, stderr }),
    )
  })
}

t.test('--help says what there is', async t => {
  const { status, stdout } = await airplay('--help')
  t.equal(status, 0)
  t.match(stdout, /^usage: airplay \[options\]\n/)
})

t.test('a usage error is one line, and status 2', async t => {
  const cases: readonly (readonly [string, ...string[]])[] = [
    ["Unknown option '--nonsense'", '--nonsense'],
    ['--stay needs a number', '--stay', 'long'],
    ['--size is WIDTHxHEIGHT, in multiples of 16', '--size', '321x176'],
    ['--end is one of teardown, close, reset, hang', '--end', 'well'],
    ['--until is one of info, pair, fairplay, setup, stream, record, mirroring', '--until', 'later'],
  ]
  await Promise.all(
    cases.map(async ([message, ...args]) => {
      const { status, stderr } = await airplay(...args)
      t.equal(status, 2, args.join(' '))
      t.match(stderr, `airplay: ${message}`)
      t.equal(stderr.split('\n').length, 2)
    }),
  )
})

t.test('no receiver is a failure, told as JSON', async t => {
  const { status, stdout } = await airplay('--port', `${await freePort()}`)
  t.equal(status, 1)
  t.match(JSON.parse(stdout), { event: 'failed', reason: /ECONNREFUSED/ })
})
