// Builds build/out/receiverd.cjs: one minified file that needs nothing but Node. The same commit gives the same bytes: the
// only outside input is the build time, SOURCE_DATE_EPOCH (reproducible-builds.org) or else the commit's.
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { build } from 'esbuild'
import { buildTime } from './build-time.ts'
import { digestOfSources, recordSources, SERVICE_PROGRAM } from './bundle-file.ts'
import { SERVICE } from './esbuild-options.ts'
import { buildPage } from './page.ts'
import { bundledPackages, noticesOf } from './third-party.ts'

const OUT = 'build/out'
const version: string = process.env.VERSION || JSON.parse(readFileSync('package.json', 'utf8')).version

const digest = digestOfSources(SERVICE_PROGRAM)
const page = await buildPage()
const { metafile } = await build({
  ...SERVICE,
  entryPoints: ['src/main.ts'],
  outfile: `${OUT}/receiverd.cjs`,
  write: true,
  banner: { js: '#!/usr/bin/env node' },
  define: {
    __VERSION__: JSON.stringify(version),
    __BUILT_AT__: String(buildTime() * 1000),
    __PAGE_HTML__: JSON.stringify(page.html),
    __PAGE_SCRIPT_GZIP__: JSON.stringify(page.script.gzip),
    __PAGE_SCRIPT_NAME__: JSON.stringify(page.script.name),
    __PAGE_STYLE_GZIP__: JSON.stringify(page.style.gzip),
    __PAGE_STYLE_NAME__: JSON.stringify(page.style.name),
  },
  metafile: true,
})
// For people to look at, and for build/size.ts.
rmSync(`${OUT}/page`, { recursive: true, force: true })
mkdirSync(`${OUT}/page/assets`, { recursive: true })
writeFileSync(`${OUT}/page/index.html`, page.html)
for (const { name, text, gzip } of [page.script, page.style]) {
  writeFileSync(`${OUT}/page/assets/${name}`, text)
  writeFileSync(`${OUT}/page/assets/${name}.gz`, gzip, 'base64')
}
chmodSync(`${OUT}/receiverd.cjs`, 0o755)
writeFileSync(`${OUT}/metafile.json`, JSON.stringify(metafile))
writeFileSync(`${OUT}/THIRD-PARTY`, noticesOf(bundledPackages(metafile)))
recordSources(SERVICE_PROGRAM, digest)
