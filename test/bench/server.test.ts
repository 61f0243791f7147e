/** The servers that are measured: how they are started and read, and that none outlives the bench. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/port.ts'
import { familyOf } from './proc.ts'
import { type Launch, Server } from './server.ts'
import { requestText } from './wire.ts'

const request = requestText({ path: '/' })

/** Serves in a child, as nginx does. */
function launchFamily(port?: number): Launch {
  const says = port === undefined ? `console.error('listening on http://127.0.0.1:' + this.address().port)` : ''
  const child = `require('http').createServer((_, response) => response.end())
    .listen(${port ?? 0}, '127.0.0.1', function () { ${says} })`
  const parent = `const child = require('child_process')
    .spawn(process.execPath, ['-e', ${JSON.stringify(child)}], { stdio: 'inherit' })
    process.on('SIGTERM', () => child.kill())
    child.on('exit', () => process.exit())`
  return { argv: [process.execPath, '-e', parent], request, ...(port !== undefined && { port }) }
}

/** Whether a process has memory: one that has ended has no command line, even before its parent takes notice. */
function isRunning(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`).length > 0
  } catch {
    return false
  }
}

t.test('a server says where it listens, or is asked at a port until it answers', async t => {
  const port = await freePort()
  for (const launch of [launchFamily(), launchFamily(port)]) {
    const server = await Server.start(launch)
    t.equal(server.port, launch.port ?? server.port)
    t.match(server.firstAnswer, /^HTTP\/1\.1 200 OK\r\n/)
    t.ok(server.startMs > 0)
    await server.stop()
  }
})

t.test('its processor time and memory include those of its children', async t => {
  const server = await Server.start(launchFamily())
  const [anonymous, all] = [server.memory('RssAnon'), server.memory('VmRSS')]
  t.ok(anonymous > 0 && anonymous < all, `${anonymous} bytes of ${all}`)
  const before = server.cpuNs()
  for (let n = 0; n < 100; n++) await (await fetch(`http://127.0.0.1:${server.port}`)).text()
  t.ok(server.cpuNs() > before)
  await server.stop()
  await t.rejects(server.stop(), /has ended/)
})

t.test('a server that ends tells why', async t => {
  const argv = [process.execPath, '-e', 'console.error("out of luck"); process.exit(1)']
  await t.rejects(Server.start({ argv, request }), /out of luck/)
  await t.rejects(Server.start({ argv, request, port: await freePort() }), /out of luck/)
  await t.rejects(Server.start({ argv: ['/nonexistent/server'], request }), /ENOENT/)
})

t.test('a signal to the bench ends every process that it has started', async t => {
  const bench = `
    import { exitOnSignals } from './test/bench/lifetime.ts'
    import { Server } from './test/bench/server.ts'
    exitOnSignals()
    await Server.start(${JSON.stringify(launchFamily())})
    console.log('started')
    setInterval(() => undefined, 1_000)`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', bench], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  const family = familyOf(child.pid ?? 0)
  t.equal(family.length, 3, 'the bench, a server, its child')
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [143, null])
  await eventually(() => !family.some(isRunning))
})
