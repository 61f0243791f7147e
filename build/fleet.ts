// Builds build/out/receiverd-fleet.cjs: one file that needs nothing but Node. The same commit gives the same bytes.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { build } from 'esbuild'
import packageFile from '../package.json' with { type: 'json' }
import { buildTime } from './build-time.ts'
import { digestOfSources, FLEET_PROGRAM, recordSources } from './bundle-file.ts'
import { PROGRAM } from './esbuild-options.ts'
import { bundledPackages, noticesOf } from './third-party.ts'

const OUT = 'build/out'
const OWN_PACKAGES = 'src/fleet/node_modules'

const digest = digestOfSources(FLEET_PROGRAM)
mkdirSync(OUT, { recursive: true })
const { metafile } = await build({
  ...PROGRAM,
  minify: true,
  legalComments: 'none',
  entryPoints: ['src/fleet/main.ts'],
  outfile: `${OUT}/${FLEET_PROGRAM.name}`,
  write: true,
  banner: { js: '#!/usr/bin/env node' },
  // mqtt's package debug colors its lines with this package if it is installed; it would come from this repository's tools.
  external: ['supports-color'],
  define: {
    __VERSION__: JSON.stringify(process.env.VERSION || packageFile.version),
    __BUILT_AT__: String(buildTime() * 1000),
  },
  metafile: true,
})
chmodSync(`${OUT}/${FLEET_PROGRAM.name}`, 0o755)
const inputs = Object.entries(metafile.inputs)
const partOf = (isOwn: boolean) => ({
  inputs: Object.fromEntries(inputs.filter(([path]) => path.startsWith(OWN_PACKAGES) === isOwn)),
})
const notices = [
  noticesOf(bundledPackages(partOf(true)), OWN_PACKAGES),
  noticesOf(bundledPackages(partOf(false))),
].filter(text => text !== '')
writeFileSync(`${OUT}/THIRD-PARTY-FLEET`, notices.join(`\n${'-'.repeat(80)}\n\n`))
recordSources(FLEET_PROGRAM, digest)
