// Compiles tests to build/out/tests: all of them when it is run, which takes a second, or those that are asked for. Sources
// that tests share, and the product's libraries, become chunks that are loaded as plain JavaScript.
//
// When it is run, it also prints what to pass to tap for all tests, or with `quick` for those that start nothing: no command, no
// browser, no machine. Small tests of a room share a process: to start one takes longer than most of them.
const { mkdirSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } = require('node:fs')
const { readFile } = require('node:fs/promises')
const { dirname, join, relative } = require('node:path')
const { pathToFileURL } = require('node:url')

const REPOSITORY = join(__dirname, '..')
const OUT = join(REPOSITORY, 'build/out/tests')
/** Everything that tests are compiled from. Libraries change only with the lock file. */
const SOURCES = ['src', 'hal', 'test', 'build', 'package-lock.json']
/** Folders that hold no sources to compile. */
const OTHERS = new Set(['node_modules', 'fixtures', 'out'])
/** Libraries that the product bundles. The others stay where they are. */
const BUNDLED = /^(typebox|@noble\/hashes)\b/
/**
 * tap in one file: loading its two hundred files takes longer than most tests. A file of its own and no chunk, because tap must
 * be loaded only once, in a folder that tap leaves out of stacks.
 */
const TAP = join(OUT, 'node_modules/@tapjs/tap.mjs')
/** Written whenever tap is installed, or compiles itself for its plugins. */
const TAP_SOURCE = join(REPOSITORY, 'node_modules/@tapjs/test/test-built/package.json')
/** Rooms with packages of their own. */
const OWN_PACKAGES = ['test/', 'src/fleet/']
/** Rooms of test/ whose tests share a process; `.` are those in test/ itself. */
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
 * The tests that take longest, most of it waiting: they begin first, so that nobody waits for them at the end. tap runs programs in the
 * order of their paths: build/out/tests/test, where these are compiled to, build/out/tests/together, and test.
 */
const FIRST = new Set([
  'crash/states.test.ts',
  'engines/model.test.ts',
  'engines/moderation.test.ts',
  'fleet/ansible.test.ts',
  'fleet/apply.test.ts',
  'fuzz/fuzz.test.ts',
  'interop/node-versions.test.ts',
  'interop/sessions.test.ts',
  'page/accessibility.test.ts',
  'page/lighthouse.test.ts',
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
/** Rooms with tests that start something. */
const STARTING =
  /^(bench|crash|e2e|engines|fleet|fuzz|hal\/os|hostile|image|interop|package|page|presence|rig|soak|system\/card|visits)\//
/** Tests that measure, or go on until so much has happened, which takes its time. */
const MEASURING = new Set([
  'contract/linear-time.test.ts',
  'faults/strikes.test.ts',
  'hal/transaction/memory.test.ts',
  'presence/picture.test.ts',
])
/** How long a test run that has begun may still need old chunks: a day. */
const KEPT_MS = 24 * 60 * 60 * 1000

/**
 * The path of a test after compilation.
 * @param {string} test Its absolute path.
 */
function compiledPath(test) {
  return join(OUT, relative(REPOSITORY, test).replace(/\.ts$/, '.js'))
}

/**
 * Whether a test is compiled from the sources as they are now.
 * @param {string} test Its absolute path.
 */
function isCompiled(test) {
  return isCurrent(
    compiledPath(test),
    SOURCES.map(path => join(REPOSITORY, path)),
  )
}

/**
 * Whether what was compiled to `path` is newer than its sources.
 * @param {string} path
 * @param {readonly string[]} sources Files and folders.
 */
function isCurrent(path, sources) {
  const compiled = statSync(path, { throwIfNoEntry: false })
  return compiled !== undefined && sources.every(source => lastChange(source) < compiled.mtimeMs)
}

/**
 * When a file, or anything in a folder, last changed. By its status change time, which a copy or a move sets, too.
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

/** @param {readonly string[]} tests Absolute paths. */
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
    // Conditions of exports (nodejs.org/api/packages.html) that Node knows, and not esbuild's own "module".
    conditions: [],
    logLevel: 'warning',
    ...options,
    write: false,
  })
  for (const { path, contents } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true })
    // Another run may be about to load it.
    const temporary = `${path}.${process.pid}`
    writeFileSync(temporary, contents)
    // A source that changes meanwhile makes it out of date.
    utimesSync(temporary, began / 1000, began / 1000)
    renameSync(temporary, path)
  }
}

/**
 * Compiled code behaves as it does where its source is: import.meta is the source's, and packages are found from there.
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
 * import.meta is that of the source.
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

/** @param {import('esbuild').PluginBuild} build */
function withCompiledTap(build) {
  build.onResolve({ filter: /^tap$/ }, () => ({ path: pathToFileURL(TAP).href, external: true }))
}

/** Removes chunks that no run needs any more. */
function removeOldChunks() {
  const chunks = join(OUT, 'chunks')
  for (const name of readdirSync(chunks)) {
    const path = join(chunks, name)
    if (statSync(path).mtimeMs < Date.now() - KEPT_MS) rmSync(path, { force: true })
  }
}

/** All tests, by their paths in test/. */
function allTests() {
  return readdirSync(join(REPOSITORY, 'test'), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.test.ts') && !name.includes('node_modules'))
    .sort()
}

/**
 * The programs that run these tests, by their paths in the repository.
 * @param {readonly string[]} tests
 * @returns {readonly string[]}
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
 * Whether a test starts nothing, and measures nothing.
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
