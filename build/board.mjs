// Builds build/out/bench-board.cjs, the measurement that is copied to a board: one file with the bundle, a device's root,
// the server that it is held against, and the clients.
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'

const SOURCES = 'test/bench/board'
const ROOT = 'test/fixtures/receiver'

async function program(name, define = {}) {
  const { outputFiles } = await build({
    entryPoints: [`${SOURCES}/${name}.ts`],
    bundle: true,
    write: false,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    define,
    logLevel: 'warning',
  })
  return outputFiles[0].text
}

const programs = {
  receiverd: readFileSync('build/out/receiverd.cjs', 'latin1'),
  bare: await program('bare'),
  load: await program('load'),
}
const root = readdirSync(ROOT, { recursive: true, withFileTypes: true })
  .filter(entry => !entry.isDirectory())
  .map(entry => {
    const from = join(entry.parentPath ?? entry.path, entry.name)
    const path = from.slice(ROOT.length + 1)
    return entry.isSymbolicLink() ? { path, link: readlinkSync(from) } : { path, text: readFileSync(from, 'latin1') }
  })
  .sort((a, b) => (a.path < b.path ? -1 : 1))
const define = { __PROGRAMS__: JSON.stringify(programs), __ROOT__: JSON.stringify(root) }
writeFileSync('build/out/bench-board.cjs', `#!/usr/bin/env node\n${await program('main', define)}`)
