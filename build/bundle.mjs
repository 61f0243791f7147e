// Builds build/out/receiverd.cjs: one minified CommonJS file that needs nothing but Node. The same commit gives the same
// bytes: the only thing from outside is the build time, SOURCE_DATE_EPOCH (reproducible-builds.org) or the commit's.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { build } from 'esbuild'

const OUT = 'build/out'
const { version } = JSON.parse(readFileSync('package.json', 'utf8'))

function buildTime() {
  if (process.env.SOURCE_DATE_EPOCH) return Number(process.env.SOURCE_DATE_EPOCH)
  try {
    return Number(
      execFileSync('git', ['log', '-1', '--format=%ct'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
    )
  } catch {
    throw new Error('no commit to take the build time from: set SOURCE_DATE_EPOCH to the seconds since 1970')
  }
}

// TypeBox's checker of the `format` keyword brings 15 KB of address and date grammars. Where our schemas name a format it
// is for the reader of the OpenAPI document, never to check by: formats outside a validator's own set are annotations.
const withoutFormats = {
  name: 'without-formats',
  setup({ onLoad }) {
    onLoad({ filter: /typebox\/build\/format\/index\.mjs$/ }, () => ({
      contents: 'export const Format = { Has: () => false, Test: () => true }',
    }))
  },
}

mkdirSync(OUT, { recursive: true })
const { metafile } = await build({
  entryPoints: ['src/main.ts'],
  outfile: `${OUT}/receiverd.cjs`,
  bundle: true,
  minify: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  legalComments: 'none',
  banner: { js: '#!/usr/bin/env node' },
  define: {
    __VERSION__: JSON.stringify(version),
    __BUILT_AT__: String(buildTime() * 1000),
  },
  plugins: [withoutFormats],
  metafile: true,
  logLevel: 'warning',
})
chmodSync(`${OUT}/receiverd.cjs`, 0o755)
writeFileSync(`${OUT}/metafile.json`, JSON.stringify(metafile))
