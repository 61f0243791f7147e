// Builds build/out/bench-board.cjs, the measurement to copy to a board: one file with the bundle, a device's root, the
// server that it is compared with, and the clients.
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { currentBundle } from './bundle-file.ts'
import { PROGRAM } from './esbuild-options.ts'

const ROOT = 'test/fixtures/receiver'

async function program(source: string, define: Readonly<Record<string, string>> = {}): Promise<string> {
  const { outputFiles } = await build({ ...PROGRAM, entryPoints: [`test/bench/${source}`], define })
  return outputFiles.map(({ text }) => text).join('')
}

const programs = {
  receiverd: readFileSync(currentBundle(), 'latin1'),
  bare: await program('peers/bare.ts'),
  clients: await program('board/clients.ts'),
}
const root = readdirSync(ROOT, { recursive: true, withFileTypes: true })
  .filter(entry => !entry.isDirectory())
  .map(entry => {
    const from = join(entry.parentPath, entry.name)
    const path = from.slice(ROOT.length + 1)
    return entry.isSymbolicLink() ? { path, link: readlinkSync(from) } : { path, text: readFileSync(from, 'latin1') }
  })
  .sort((a, b) => (a.path < b.path ? -1 : 1))
const define = { __PROGRAMS__: JSON.stringify(programs), __ROOT__: JSON.stringify(root) }
writeFileSync('build/out/bench-board.cjs', `#!/usr/bin/env node\n${await program('board/main.ts', define)}`)
