/** The cost of an upload of half a gigabyte: memory of the service, and time of others. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { truncateSync, writeFileSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { temporaryFolder } from '../support/folder.ts'
import { NEEDS_PROOF } from '../support/needs.ts'
import { NO_RIG } from './available.ts'
import { RAUC_FILES } from './rauc.ts'
import { type Rig, startRig } from './rig.ts'

const MB = 1_000_000
const BYTES = 500 * MB
const GROWTH_BYTES = 8 * 1024 * 1024
/** Milliseconds; on a machine that is busy with something else, twice as many as without an upload. */
const P99_MS = 20

/** Bytes of memory that the service has for itself. */
async function memoryOf(rig: Rig): Promise<number> {
  const pid = (await rig.run(['systemctl', 'show', '--property=MainPID', '--value', 'receiverd'])).trim()
  return Number(/^RssAnon:\s+(\d+)/m.exec(await rig.readFile(`/proc/${pid}/status`))?.[1]) * 1024
}

/** Asks for /status on a connection of its own, one request after another, until told to stop. @returns the milliseconds of each. */
function ask(rig: Rig): () => Promise<readonly number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const headers = { Authorization: `Bearer ${rig.key}` }
  const times: number[] = []
  let isOver = false
  const run = async () => {
    while (!isOver) {
      const began = performance.now()
      const [response] = await once(get(`${rig.url}/api/v1/status`, { agent, headers }), 'response')
      await once(response.resume(), 'end')
      times.push(performance.now() - began)
      await new Promise(resolve => setTimeout(resolve, 10))
    }
    agent.destroy()
    return times
  }
  const done = run()
  return () => {
    isOver = true
    return done
  }
}

const percentile = (times: readonly number[], part: number) =>
  [...times].sort((a, b) => a - b)[Math.floor(times.length * part)] ?? Number.NaN

t.test('an upload of 500 MB', { skip: NO_RIG || NEEDS_PROOF }, async t => {
  const rig = await startRig(t, { files: RAUC_FILES })
  const file = join(temporaryFolder(t), 'bundle')
  writeFileSync(file, 'hsqs')
  truncateSync(file, BYTES)
  const upload = async () => {
    const headers = [`Authorization: Bearer ${rig.key}`, 'Content-Type: application/vnd.rauc.bundle', 'Expect:']
    const args = ['--silent', '--output', '/dev/null', '--write-out', '%{http_code} %{size_upload} %{time_total}']
    const child = spawn('curl', [
      ...args,
      ...headers.flatMap(h => ['-H', h]),
      '-T',
      file,
      `${rig.url}/api/v1/update/bundle`,
    ])
    let said = ''
    child.stdout.on('data', chunk => {
      said += chunk
    })
    await once(child, 'close')
    return said
  }
  const alone = ask(rig)
  await new Promise(resolve => setTimeout(resolve, 5_000))
  const before = await alone()
  // The first requests and a first upload bring compiled code, and buffers of the kernel's size.
  const idle = await memoryOf(rig)
  let peak = 0
  const watching = setInterval(
    () =>
      void memoryOf(rig).then(bytes => {
        peak = Math.max(peak, bytes)
      }),
    100,
  )
  const meanwhile = ask(rig)
  const said = await upload()
  const during = await meanwhile()
  clearInterval(watching)
  // Not a bundle; but all of it was received.
  t.match(said, new RegExp(`^422 ${BYTES} `))
  t.comment(
    `curl: ${said}; RssAnon ${(idle / 2 ** 20).toFixed(1)} MiB, ${((peak - idle) / 2 ** 20).toFixed(1)} more at most`,
  )
  const p99 = [before, during].map(times => percentile(times, 0.99))
  const [alone99 = 0, p99Meanwhile = Number.POSITIVE_INFINITY] = p99
  t.comment(
    `p99 of ${during.length} requests ${p99Meanwhile.toFixed(1)} ms, ${alone99.toFixed(1)} ms without the upload`,
  )
  t.ok(peak - idle < GROWTH_BYTES)
  t.ok(p99Meanwhile <= P99_MS + (alone99 > P99_MS ? 2 * alone99 : 0))
})
