// Builds build/out/receiverd.cjs: one minified CommonJS file that needs nothing but Node. The same commit gives the same
// bytes: the only thing from outside is the build time, SOURCE_DATE_EPOCH (reproducible-builds.org) or the commit's.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { build } from 'esbuild'

const OUT = 'build/out'
const version = process.env.VERSION || JSON.parse(readFileSync('package.json', 'utf8')).version
const UNUSED_KEYWORDS = JSON.parse(readFileSync('build/unused-keywords.json', 'utf8'))

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

// TypeBox checks every keyword of JSON Schema. Those that our schemas do not use are 39 KB of the bundle: references, the
// grammars behind `format`, the hashes behind `uniqueItems`. They are left out, and a test holds every schema of the
// OpenAPI document against the list. `format` itself is for the reader of that document, and never checked by; the
// messages are our own, in src/system/validate.ts.
const PASSED_ON = /import \{ (.*) \} from '(.*guard\/)index\.mjs';/
const NAMESPACES = { Guard: 'guard', EmitGuard: 'emit', GlobalsGuard: 'globals' }
const withoutTheUnused = {
  name: 'without-the-unused',
  setup({ onLoad }) {
    const replace = (filter, contents) => onLoad({ filter }, () => ({ contents }))
    replace(/typebox\/build\/format\/index\.mjs$/, 'export const Format = { Has: () => false, Test: () => true }')
    replace(/typebox\/build\/system\/locale\/en_US\.mjs$/, "export const en_US = () => ''")
    // Where a reference is resolved from.
    replace(
      /typebox\/build\/schema\/engine\/_stack\.mjs$/,
      'export const Stack = () => ({}), NextStack = stack => stack',
    )
    for (const keyword of UNUSED_KEYWORDS) {
      const name = keyword[0].toUpperCase() + keyword.slice(1)
      replace(new RegExp(`typebox/build/schema/types/${keyword}\\.mjs$`), `export const Is${name} = () => false`)
      replace(
        new RegExp(`typebox/build/schema/engine/${keyword}\\.mjs$`),
        `export const Build${name} = undefined, Check${name} = undefined, Error${name} = undefined`,
      )
    }
    // Of a namespace that another module passes on, esbuild keeps all: imported as such, what is called.
    onLoad({ filter: /typebox\/build\/(schema|system)\/.*\.mjs$/ }, ({ path }) => ({
      contents: readFileSync(path, 'utf8').replace(PASSED_ON, (_, names, folder) =>
        names
          .split(', ')
          .map(name => name.split(' as '))
          .map(([namespace, as = namespace]) => `import * as ${as} from '${folder}${NAMESPACES[namespace]}.mjs';`)
          .join(''),
      ),
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
  plugins: [withoutTheUnused],
  metafile: true,
  logLevel: 'warning',
})
chmodSync(`${OUT}/receiverd.cjs`, 0o755)
writeFileSync(`${OUT}/metafile.json`, JSON.stringify(metafile))
