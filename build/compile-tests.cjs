// Compiles tests to build/out/tests: all of them when run as a program, which takes a second, or the requested ones. Shared
// sources of the tests, and the product's libraries, become chunks that are loaded as plain JavaScript.
//
// As a program, it also prints the arguments to pass to tap for all tests, or with `quick` for the tests that start no command,
// browser or machine. The small tests of a folder share a process, because starting one takes longer than most of them.
const { mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } = require('node:fs')
const { readFile } = require('node:fs/promises')
const { dirname, join, relative } = require('node:path')
const { pathToFileURL } = require('node:url')

const REPOSITORY = join(__dirname, '..')
const OUT = join(REPOSITORY, 'build/out/tests')
/** All sources of compiled tests. Libraries change only with the lock file. */
const SOURCES = ['src', 'hal', 'test', 'build', 'package-lock.json']
/** Folders without sources to compile. */
const OTHERS = new Set(['node_modules', 'fixtures', 'out'])
/** Libraries that the product bundles. The others are imported from node_modules. */
const BUNDLED = /^(typebox|@noble\/hashes)\b/
/**
 * tap in one file, because loading its two hundred files takes longer than most tests. The file is not a chunk: tap must be
 * loaded only once, from a folder that it omits from stack traces.
 */
const TAP = join(OUT, 'node_modules/@tapjs/tap.mjs')
/** A file that is written whenever tap is installed, or compiles itself for its plugins. */
const TAP_SOURCE = join(REPOSITORY, 'node_modules/@tapjs/test/test-built/package.json')
/** Folders that have their own packages, in them or below. */
const OWN_PACKAGES = ['test/', 'src/fleet/']
/** Folders of test/ whose tests share a process. `.` stands for the tests directly in test/. */
const SHARED = [
  'hal/format',
  'hal/settings',
  'hal/files',
  'hal/os',
  'api',
  'system',
  'http',
  'events',
  'sessions',
  'auth',
  'cli',
  '.',
]
/**
 * The slowest tests, which mostly wait. They run first, so that the run does not end with them. tap runs programs in the order
 * of their paths: build/out/tests/test, which has these compiled tests, then build/out/tests/together, then test.
 */
const FIRST = new Set([
  'crash/states.test.ts',
  'engines/model.test.ts',
  'engines/moderation.test.ts',
  'fleet/ansible.test.ts',
  'fleet/apply.test.ts',
  'fuzz/fuzz.test.ts',
  'hal/engines/uxplay.test.ts',
  'interop/node-versions.test.ts',
  'interop/sessions.test.ts',
  'page/accessibility.test.ts',
  'page/link.test.ts',
  'page/sessions.test.ts',
  'page/trial.test.ts',
  'page/update-views.test.ts',
  'page/update.test.ts',
  'page/walk.test.ts',
  'presence/tls.test.ts',
  'rig/bad-network.test.ts',
  'rig/download.test.ts',
  'rig/judge.test.ts',
  'rig/operations.test.ts',
  'rig/service.test.ts',
  'rig/update.test.ts',
  'soak/soak.test.ts',
  'visits/address.test.ts',
])
/** Folders with tests that start commands, browsers or machines. */
const STARTING =
  /^(bench|crash|e2e|engines|fleet|fuzz|hal\/os|hostile|image|interop|package|page|presence|rig|soak|system\/card|visits)\//
/** Slow tests that measure, or run until enough has happened. */
const MEASURING = new Set([
  'contract/linear-time.test.ts',
  'faults/strikes.test.ts',
  'hal/transaction/memory.test.ts',
  'presence/picture.test.ts',
])
/** Milliseconds for which a test run in progress may still need old chunks: a day. */
const KEPT_MS = 24 * 60 * 60 * 1000

/**
 * Returns the path of a compiled test.
 * @param {string} test The test's absolute path.
 */
function compiledPath(test) {
  return join(OUT, relative(REPOSITORY, test).replace(/\.ts$/, '.js'))
}

/**
 * Reports whether the compiled test is up to date.
 * @param {string} test The test's absolute path.
 */
function isCompiled(test) {
  return isCurrent(
    compiledPath(test),
    SOURCES.map(path => join(REPOSITORY, path)),
  )
}

/**
 * Reports whether a compiled file is newer than its sources.
 * @param {string} path The compiled file.
 * @param {readonly string[]} sources Files and folders.
 */
function isCurrent(path, sources) {
  const compiled = statSync(path, { throwIfNoEntry: false })
  return compiled !== undefined && sources.every(source => lastChange(source) < compiled.mtimeMs)
}

/**
 * Returns when a file, or anything in a folder, last changed. Uses the status change time, which copying and moving also set.
 * @param {string} path
 * @returns {number} Milliseconds since 1970.
 */
function lastChange(path) {
  const status = statSync(path)
  if (!status.isDirectory()) return status.ctimeMs
  const inside = readdirSync(path, { withFileTypes: true })
    .filter(entry => (entry.isDirectory() ? !OTHERS.has(entry.name) : /\.c?ts$|\.cjs$/.test(entry.name)))
    .map(entry => lastChange(join(path, entry.name)))
  return Math.max(status.ctimeMs, ...inside)
}

/** Compiles tests, and tap if needed. @param {readonly string[]} tests Absolute paths. */
async function compile(tests) {
  await Promise.all([
    bundle({
      entryPoints: [...tests],
      outdir: OUT,
      outbase: REPOSITORY,
      chunkNames: 'chunks/[hash]',
      splitting: true,
      sourcemap: true,
      sourcesContent: false,
      plugins: [
        { name: 'tap', setup: withCompiledTap },
        { name: 'tests', setup: asInPlace },
      ],
    }),
    isCurrent(TAP, [TAP_SOURCE, __filename]) ||
      bundle({
        entryPoints: ['tap'],
        outfile: TAP,
        // Some of tap's libraries are CommonJS.
        banner: { js: "import { createRequire as of } from 'node:module'; const require = of(import.meta.url)" },
        plugins: [{ name: 'origin', setup: withOrigin }],
      }),
  ])
}

/** @param {import('esbuild').BuildOptions} options */
async function bundle(options) {
  const began = Date.now()
  const { build } = require('esbuild')
  const { outputFiles } = await build({
    absWorkingDir: REPOSITORY,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    // Only the conditions for exports that Node knows (nodejs.org/api/packages.html), without esbuild's own "module".
    conditions: [],
    logLevel: 'warning',
    ...options,
    write: false,
  })
  for (const { path, contents } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true })
    // Replaces the file atomically: another run may be about to load it.
    const temporary = `${path}.${process.pid}`
    writeFileSync(temporary, contents)
    // Dated to the start, so that a source that changes meanwhile makes the file out of date.
    utimesSync(temporary, began / 1000, began / 1000)
    renameSync(temporary, path)
  }
}

/**
 * Makes compiled code behave as if it ran at its source: import.meta and the lookup of packages are those of the source.
 * @param {import('esbuild').PluginBuild} build
 */
function asInPlace(build) {
  withOrigin(build)
  build.onResolve({ filter: /^[^./]/ }, async ({ path, kind, resolveDir, pluginData }) => {
    if (kind === 'entry-point' || pluginData === asInPlace || BUNDLED.test(path)) return undefined
    const found = await build.resolve(path, { kind, resolveDir, pluginData: asInPlace })
    const isNested =
      found.errors.length === 0 && OWN_PACKAGES.some(room => found.path.startsWith(join(REPOSITORY, room)))
    return { path: isNested ? found.path : path, external: true }
  })
}

/**
 * Replaces import.meta with the values of the source file.
 * @param {import('esbuild').PluginBuild} build
 */
function withOrigin(build) {
  build.onLoad({ filter: /\.[jt]s$/ }, async ({ path }) => {
    const text = await readFile(path, 'utf8')
    if (!text.includes('import.meta.')) return undefined
    const contents = text
      .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
      .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
      .replaceAll('import.meta.filename', JSON.stringify(path))
    return { contents, loader: path.endsWith('.ts') ? 'ts' : 'js' }
  })
}

/** Imports tap from its compiled file. @param {import('esbuild').PluginBuild} build */
function withCompiledTap(build) {
  build.onResolve({ filter: /^tap$/ }, () => ({ path: pathToFileURL(TAP).href, external: true }))
}

/** Removes chunks that no run needs anymore. */
function removeOldChunks() {
  const chunks = join(OUT, 'chunks')
  for (const name of readdirSync(chunks)) {
    const path = join(chunks, name)
    if (statSync(path).mtimeMs < Date.now() - KEPT_MS) rmSync(path, { force: true })
  }
}

/** Returns the paths of all tests, relative to test/. */
function allTests() {
  return readdirSync(join(REPOSITORY, 'test'), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.test.ts') && !name.includes('node_modules'))
    .sort()
}

/**
 * Writes the shared programs, and returns the programs that run these tests.
 * @param {readonly string[]} tests Paths relative to test/.
 * @returns {readonly string[]} Paths relative to the repository.
 */
function programsOf(tests) {
  const rooms = SHARED.map(room => ({ room, tests: tests.filter(test => roomOf(test) === room) }))
  for (const { room, tests } of rooms) {
    const imports = tests.map(test => `import '${pathToFileURL(compiledPath(join(REPOSITORY, 'test', test))).href}'\n`)
    mkdirSync(join(OUT, dirname(sharedProgram(room))), { recursive: true })
    writeFileSync(join(OUT, sharedProgram(room)), imports.join(''))
  }
  const shared = rooms.filter(({ tests }) => tests.length > 0).map(({ room }) => join(OUT, sharedProgram(room)))
  const alone = tests
    .filter(test => !SHARED.includes(roomOf(test)))
    .map(test => ({ test, path: join(REPOSITORY, 'test', test) }))
    .map(({ test, path }) => (FIRST.has(test) ? compiledPath(path) : path))
  return [...shared, ...alone].map(path => relative(REPOSITORY, path))
}

/** @param {string} room */
function sharedProgram(room) {
  return join('together', `${room === '.' ? 'test' : room}.test.js`)
}

/** @param {string} test */
function roomOf(test) {
  const folder = dirname(test)
  return folder.startsWith('hal/settings/') ? 'hal/settings' : folder
}

/**
 * Reports whether a test starts nothing, and measures nothing.
 * @param {string} test
 */
function startsNothing(test) {
  return !STARTING.test(test) && !MEASURING.has(test)
}

async function main() {
  const all = allTests()
  await compile(all.map(name => join(REPOSITORY, 'test', name)))
  removeOldChunks()
  const isQuick = process.argv[2] === 'quick'
  const chosen = isQuick ? all.filter(startsNothing) : all
  console.log(programsOf(chosen).join('\n'))
}

module.exports = { allTests, asInPlace, compile, compiledPath, isCompiled, startsNothing }
if (require.main === module) main()
