/**
 * Loaded into the service by `--require`. At SIGUSR2, it writes to /run/receiverd/loop-delay how long the event loop was
 * blocked since the last time, in milliseconds, and the calls on files that blocked it for more than 10 ms, with the longest of
 * each.
 */
const fs = require('node:fs')
const { monitorEventLoopDelay } = require('node:perf_hooks')

const LONG_MS = 10
/** @type {Record<string, { times: number, ms: number }>} */
let held = {}
/** @type {Record<string, any>} */
const calls = fs

for (const name of Object.keys(calls).filter(name => name.endsWith('Sync'))) {
  const original = calls[name]
  /** @param {unknown[]} args */
  calls[name] = function timed(...args) {
    const began = performance.now()
    try {
      return original.apply(this, args)
    } finally {
      const ms = performance.now() - began
      const { times, ms: longest } = held[name] ?? { times: 0, ms: 0 }
      if (ms > LONG_MS) held[name] = { times: times + 1, ms: Math.max(longest, ms) }
    }
  }
  Object.assign(calls[name], original)
}

const delay = monitorEventLoopDelay({ resolution: 5 })
delay.enable()
process.on('SIGUSR2', () => {
  const [p50, p99, max] = [delay.percentile(50), delay.percentile(99), delay.max].map(ns => ns / 1e6)
  const result = JSON.stringify({ p50, p99, max, held })
  delay.reset()
  held = {}
  fs.writeFileSync('/run/receiverd/.loop-delay', result)
  fs.renameSync('/run/receiverd/.loop-delay', '/run/receiverd/loop-delay')
})
