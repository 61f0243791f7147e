import { mkdirSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build, type PluginBuild } from 'esbuild'
import { COMPARE, HITS } from './counters.ts'
import { instrument } from './instrument.ts'

const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url))
/** In two parts, so that this source, when it is compiled as the part of a test, keeps it. */
const META = 'import.meta'
/** The branches of these count; those of tests and of packages do not. */
const COUNTED = /^(src|hal)\//

/** Where `make fuzz` keeps the program, and its findings. */
export const OUT = join(REPOSITORY, 'build/out/fuzz')

/**
 * Bundles the fuzzer and its targets with the sources that they run, whose branches are counted.
 * @returns the path of the program.
 */
export async function buildFuzzer(program = join(OUT, 'fuzz.mjs')): Promise<string> {
  let counters = 0
  const load = (setup: PluginBuild) =>
    setup.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const text = (await readFile(path, 'utf8'))
        .replaceAll(`${META}.url`, JSON.stringify(pathToFileURL(path).href))
        .replaceAll(`${META}.dirname`, JSON.stringify(dirname(path)))
      if (!COUNTED.test(path.slice(REPOSITORY.length))) return { contents: text, loader: 'ts' }
      const { code, next } = instrument(path, text, counters)
      counters = next
      return { contents: code, loader: 'js' }
    })
  mkdirSync(dirname(program), { recursive: true })
  const { outputFiles } = await build({
    entryPoints: [join(REPOSITORY, 'test/fuzz/main.ts')],
    outfile: program,
    write: false,
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    conditions: [],
    sourcemap: 'inline',
    sourcesContent: false,
    logLevel: 'warning',
    // Before any module: the counters, and names that some packages expect.
    banner: {
      js: `import { createRequire as __createRequire } from 'node:module'
const require = __createRequire(import.meta.url)
const ${HITS} = globalThis.${HITS} = new Uint32Array(NUMBER_OF_COUNTERS)
const ${COMPARE} = (one, other) => one === other || globalThis.${COMPARE}?.(one, other) === true`,
    },
    plugins: [{ name: 'instrument', setup: load }],
  })
  for (const { path, text } of outputFiles) writeFileSync(path, text.replace('NUMBER_OF_COUNTERS', `${counters}`))
  return program
}
