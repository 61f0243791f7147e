/** An upload goes through the service without staying in its memory, on every Node that the bundle is meant for. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import t, { type Test } from 'tap'
import { temporaryFolder } from '../support/folder.ts'

const MIB = 1024 * 1024
const CHUNK = Buffer.alloc(64 * 1024, 'x')
const UPLOAD_CHUNKS = 1024
/** Without `freeChunk` of src/http/node-internals.ts it grows by 15 to 32 MiB. */
const GROWTH_BYTES = 8 * MIB
const LOOK_MS = 2

/** Of the two packages of a version, the one for this machine is installed. */
const NODES = [
  process.execPath,
  ...['22', '24', '26'].flatMap(version =>
    [`node-${version}`, `node-${version}-arm64`]
      .map(name => fileURLToPath(new URL(`node_modules/${name}/bin/node`, import.meta.url)))
      .filter(path => existsSync(path)),
  ),
]

/** The service as a program of its own. */
const program = join(temporaryFolder(t), 'serve.mjs')
buildSync({
  entryPoints: ['test/update/serve.ts'],
  outfile: program,
  bundle: true,
  platform: 'node',
  format: 'esm',
  logLevel: 'error',
})

/** Bytes of memory that a process has for itself. */
function memoryOf({ pid }: ChildProcess): number {
  return Number(/^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
}

async function upload(url: string, key: string, chunks: number): Promise<number | undefined> {
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/octet-stream',
    'Content-Length': chunks * CHUNK.length,
  }
  const put = request(`${url}/api/v1/update/bundle`, { method: 'PUT', headers })
  const answered = once(put, 'response')
  for (let n = 0; n < chunks; n++) if (!put.write(CHUNK)) await once(put, 'drain')
  put.end()
  const [response] = await answered
  await once(response.resume(), 'end')
  return response.statusCode
}

async function grown(t: Test, node: string): Promise<number> {
  // The heap that the unit gives to the service.
  const NODE_OPTIONS = '--max-old-space-size=64 --max-semi-space-size=2'
  const env = { PATH: process.env.PATH, NODE_OPTIONS, MALLOC_ARENA_MAX: '1' }
  const child = spawn(node, [program, temporaryFolder(t)], { env, stdio: ['ignore', 'pipe', 'ignore'] })
  t.teardown(() => child.kill())
  const [line] = await once(child.stdout, 'data')
  const [url = '', key = ''] = `${line}`.trim().split(' ')
  // Code is compiled, and the kernel's buffers are there.
  t.equal(await upload(url, key, 16), 201)
  const before = memoryOf(child)
  let most = 0
  const watching = setInterval(() => {
    most = Math.max(most, memoryOf(child))
  }, LOOK_MS)
  t.equal(await upload(url, key, UPLOAD_CHUNKS), 201)
  clearInterval(watching)
  t.ok(most > 0, 'it was looked at meanwhile')
  return most - before
}

for (const node of NODES)
  t.test(node, async t => {
    const bytes = await grown(t, node)
    t.comment(`${(bytes / MIB).toFixed(1)} MiB more at most`)
    t.ok(bytes < GROWTH_BYTES)
  })
