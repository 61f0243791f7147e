// Loaded into the service by NODE_OPTIONS=--require: measures the process from inside, and moves the wall clock that it sees. The
// clock of the host stays as it is, and so does the monotonic one, as on a device whose time is set.
//
// Listens on the Unix socket SOAK_PROBE. Each connection is one order in JSON, and one answer.
const { readdirSync, readFileSync } = require('node:fs')
const { createServer } = require('node:net')
const { monitorEventLoopDelay } = require('node:perf_hooks')
const { getHeapCodeStatistics, setFlagsFromString } = require('node:v8')
const { runInNewContext } = require('node:vm')

/** Milliseconds between two looks at the event loop. A wait as long as this is no delay. */
const RESOLUTION_MS = 20
/** Timers that have fired are forgotten when there are so many. */
const MAX_FORGOTTEN = 10_000

const realNow = Date.now
let offsetMs = 0
Date.now = () => realNow() + offsetMs

// Node lists only the timers that keep it running.
/** @type {Set<any>} */
const timers = new Set()
/** @type {any} */
const globals = globalThis
const forgetFired = () => {
  for (const timer of timers) if (timer._destroyed) timers.delete(timer)
}
for (const name of ['setTimeout', 'setInterval']) {
  const real = globals[name]
  /** @param {any[]} args */
  const counted = (...args) => {
    const timer = real(...args)
    if (timers.size > MAX_FORGOTTEN) forgetFired()
    timers.add(timer)
    return timer
  }
  globals[name] = Object.assign(counted, real)
}

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc')
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
delay.enable()

/** inotify(7) watches, as proc_pid_fdinfo(5) lists them. */
function watches() {
  return readdirSync('/proc/self/fdinfo')
    .map(name => {
      try {
        return readFileSync(`/proc/self/fdinfo/${name}`, 'utf8').match(/^inotify wd:/gm)?.length ?? 0
      } catch {
        // It was that of readdir(3).
        return 0
      }
    })
    .reduce((sum, count) => sum + count, 0)
}

async function sample() {
  const loop = [delay.percentile(50), delay.percentile(99), delay.max].map(ns => ns / 1e6)
  // Memory held by finalizers and weak references goes with the second collection, or the third.
  for (let n = 0; n < 3; n++) {
    gc()
    await new Promise(resolve => setImmediate(resolve))
  }
  forgetFired()
  delay.reset()
  const memory = process.memoryUsage()
  // V8 compiles for hours: in snapshots of the heap, nothing else grew.
  const { code_and_metadata_size: code, bytecode_and_metadata_size: bytecode } = getHeapCodeStatistics()
  const cpu = process.cpuUsage()
  return {
    rss: memory.rss,
    heap: memory.heapUsed - code - bytecode,
    code: code + bytecode,
    external: memory.external,
    handles: process.getActiveResourcesInfo().length,
    descriptors: readdirSync('/proc/self/fd').length,
    watches: watches(),
    timers: timers.size,
    cpuMs: (cpu.user + cpu.system) / 1000,
    loop,
  }
}

const server = createServer(socket => {
  socket.on('error', () => undefined)
  socket.setEncoding('utf8').once('data', async text => {
    const order = JSON.parse(String(text))
    if (order.offsetMs !== undefined) offsetMs = order.offsetMs
    socket.end(JSON.stringify(order.sample ? await sample() : {}))
  })
})
server.listen(process.env.SOAK_PROBE).unref()
