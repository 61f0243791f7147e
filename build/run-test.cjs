// Loaded by `node --require` into each process that tap starts for a test. It runs the test as compiled, and compiles it
// first if a source has changed since, so that `npx tap FILE` does the same as `make test`.
//
// It does so in place of Node's own start, and of the preloads that tap asks for with --import: @tapjs/processinfo starts a
// thread that sees each import, for coverage and `tap --changed`, which costs more than most tests.
const Module = require('node:module')
const { pathToFileURL } = require('node:url')
const { compile, compiledPath, isCompiled } = require('./compile-tests.cjs')
const { tap } = require('../package.json')

/** The exit status of Node if a top-level await never ends. */
const UNSETTLED = 13

// Without tap's reporter a test has as long as with it, and not the 30 s that tap's library allows.
process.env.TAP_TIMEOUT ??= String(tap.timeout)

async function runTest() {
  const test = process.argv[1] ?? ''
  // A program that several tests share is compiled with them.
  const isShared = test.endsWith('.js')
  if (!isShared && !isCompiled(test)) await compile([test])
  await import(pathToFileURL(isShared ? test : compiledPath(test)).href)
}

const unsettled = () => {
  process.exitCode ??= UNSETTLED
  process.stderr.write('a top-level await never ends\n')
}

// The start of every program, which a preload may replace. It is not in Node's types.
Module.runMain = () => {
  process.setSourceMapsEnabled(true)
  process.once('exit', unsettled)
  return runTest().finally(() => process.off('exit', unsettled))
}
