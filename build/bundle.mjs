// Builds build/out/receiverd.cjs: one minified CommonJS file that needs nothing but Node. The same commit gives the same
// bytes: the only thing from outside is the build time, SOURCE_DATE_EPOCH (reproducible-builds.org) or the commit's.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
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

// TypeBox checks every keyword of JSON Schema. Those that our schemas do not use are 30 KB of the bundle: references, the
// grammars behind `format`, the hashes behind `uniqueItems`. They are left out, and a schema that uses one fails loudly.
// `format` itself is for the reader of the OpenAPI document, and never checked by.
const UNUSED_KEYWORDS = `additionalItems allOf contains dependencies dependentRequired dependentSchemas dynamicRef
  exclusiveMaximum exclusiveMinimum if maxContains minContains multipleOf not oneOf patternProperties prefixItems
  propertyNames recursiveRef ref unevaluatedItems unevaluatedProperties uniqueItems`.split(/\s+/)

const withoutUnusedKeywords = {
  name: 'without-unused-keywords',
  setup({ onLoad }) {
    onLoad({ filter: /typebox\/build\/format\/index\.mjs$/ }, () => ({
      contents: 'export const Format = { Has: () => false, Test: () => true }',
    }))
    // Its messages: src/system/validate.ts says the same in words for whoever sent the value.
    onLoad({ filter: /typebox\/build\/system\/locale\/en_US\.mjs$/ }, () => ({
      contents: "export const en_US = () => ''",
    }))
    onLoad({ filter: /typebox\/build\/schema\/engine\/[a-z]\w*\.mjs$/ }, ({ path }) => {
      const keyword = basename(path, '.mjs')
      if (!UNUSED_KEYWORDS.includes(keyword)) return undefined
      const name = keyword[0].toUpperCase() + keyword.slice(1)
      const fail = `() => { throw new Error('the keyword ${keyword} is not in the bundle') }`
      return { contents: `export const Build${name} = undefined, Check${name} = ${fail}, Error${name} = Check${name}` }
    })
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
  plugins: [withoutUnusedKeywords],
  metafile: true,
  logLevel: 'warning',
})
chmodSync(`${OUT}/receiverd.cjs`, 0o755)
writeFileSync(`${OUT}/metafile.json`, JSON.stringify(metafile))
