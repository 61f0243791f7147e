/** Compiles the tests once, each to a program of its own that has all mutants of the rooms in it. */
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { build, type Plugin } from 'esbuild'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { allTests, asInPlace, startsNothing } from '../../build/compile-tests.cjs'
import { type Mutant, mutate, SWITCH } from './mutate.ts'

/** Of this run alone. */
const OUT = join(REPOSITORY, `build/out/mutants/${process.pid}`)
/** The rooms that run mutated code, besides the tests of the mutated room: with the service's own parts, and no command. */
const OTHER_ROOMS = [
  'auth',
  'events',
  'sessions',
  'hal/files',
  'hal/transaction',
  'system',
  'api',
  'http',
  'settings-file',
]

/** A test as compiled. */
export interface Program {
  /** Path in test/. */
  readonly test: string
  readonly path: string
  /** The mutated files that it imports. */
  readonly files: ReadonlySet<string>
}

export interface Compiled {
  readonly mutants: readonly Mutant[]
  readonly programs: readonly Program[]
  /** Of the process that runs programs. */
  readonly worker: string
}

/** @param rooms Folders whose sources are mutated, or single sources. */
export async function compile(rooms: readonly string[]): Promise<Compiled> {
  process.once('exit', () => rmSync(OUT, { recursive: true, force: true }))
  mkdirSync(OUT, { recursive: true })
  const mutants: Mutant[] = []
  const sources = new Map<string, string>()
  for (const file of rooms.flatMap(sourcesOf)) {
    const { code, mutants: found } = mutate(file, readFileSync(join(REPOSITORY, file), 'utf8'), mutants.length)
    mutants.push(...found)
    sources.set(file, code)
  }
  const tests = allTests().filter(test => startsNothing(test) && OTHER_ROOMS.some(room => test.startsWith(`${room}/`)))
  const { metafile } = await build({
    entryPoints: tests.map(test => join(REPOSITORY, 'test', test)),
    outdir: OUT,
    outbase: join(REPOSITORY, 'test'),
    banner: { js: `const ${SWITCH} = globalThis.mutation.begin();` },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    conditions: [],
    metafile: true,
    logLevel: 'warning',
    plugins: [withMutants(sources), { name: 'tests', setup: asInPlace }],
  })
  const worker = join(OUT, 'worker.js')
  await build({
    entryPoints: [join(REPOSITORY, 'test/mutants/worker.ts')],
    outfile: worker,
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
  })
  const programs = Object.entries(metafile.outputs).map(([output, { entryPoint = '', inputs }]) => ({
    test: relative('test', entryPoint),
    path: join(process.cwd(), output),
    files: new Set(Object.keys(inputs).filter(input => sources.has(input))),
  }))
  return { mutants, programs: programs.filter(({ files }) => files.size > 0), worker }
}

function sourcesOf(room: string): readonly string[] {
  if (room.endsWith('.ts')) return [room]
  return readdirSync(join(REPOSITORY, room), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .map(name => join(room, name))
    .sort()
}

function withMutants(sources: ReadonlyMap<string, string>): Plugin {
  return {
    name: 'mutants',
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const contents = sources.get(relative(REPOSITORY, path))
        return contents === undefined ? undefined : { contents, loader: 'ts' }
      })
      // Libraries are loaded once for all runs.
      build.onResolve({ filter: /^(typebox|@noble\/hashes)\b/ }, ({ path }) => ({ path, external: true }))
      // The tests of a run report to it, and not to the process.
      build.onResolve({ filter: /^tap$/ }, ({ namespace }) =>
        namespace === 'tap' ? { path: 'tap', external: true } : { path: 'tap', namespace: 'tap' },
      )
      build.onLoad({ filter: /^tap$/, namespace: 'tap' }, () => ({
        contents: `
          export { Test } from 'tap'
          export const test = globalThis.mutation.test
          export default { test }
        `,
        resolveDir: REPOSITORY,
      }))
    },
  }
}
