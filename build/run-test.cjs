// Loaded with `node --require` into each process that tap starts for a test. It runs the compiled test, and compiles it first
// if a source has changed, so that `npx tap FILE` does the same as `make test`.
//
// It replaces Node's own start, and the preloads that tap requests with --import: @tapjs/processinfo starts a thread that
// watches every import, for coverage and `tap --changed`, which takes longer than most tests.
const Module = require('node:module')
const { pathToFileURL } = require('node:url')
const { compile, compiledPath, isCompiled } = require('./compile-tests.cjs')
const { tap } = require('../package.json')

/** Node's exit status if a top-level await never settles. */
const UNSETTLED = 13

// Without tap's reporter, a test gets the same timeout as with it, and not the 30 s of tap's library.
process.env.TAP_TIMEOUT ??= String(tap.timeout)

async function runTest() {
  const test = process.argv[1] ?? ''
  // The shared program of several tests is compiled together with them.
  const isShared = test.endsWith('.js')
  if (!isShared && !isCompiled(test)) await compile([test])
  await import(pathToFileURL(isShared ? test : compiledPath(test)).href)
}

const unsettled = () => {
  process.exitCode ??= UNSETTLED
  process.stderr.write('a top-level await never ends\n')
}

// Node calls runMain to start every program, and a preload may replace it. Node's types do not include it.
Module.runMain = () => {
  process.setSourceMapsEnabled(true)
  process.once('exit', unsettled)
  return runTest().finally(() => process.off('exit', unsettled))
}
