// Builds the Device Management page: its script and its style, each one file with a digest in its name, and the HTML that
// names them.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipAsync } from '@gfx/zopfli'
import { build } from 'esbuild'
import type { Page } from '../src/api/built-page.ts'
import { REPOSITORY } from './bundle-file.ts'
import { PAGE } from './esbuild-options.ts'

export interface PageFile {
  readonly name: string
  readonly text: string
  /** The text, compressed by Zopfli, in Base64. Zopfli saves a kilobyte and takes half a second, which is not worth a cache. */
  readonly gzip: string
}

export interface PageFiles {
  readonly html: string
  readonly script: PageFile
  readonly style: PageFile
}

export async function buildPage(): Promise<PageFiles> {
  const script = await bundled('main.ts', 'js')
  const style = await bundled('page.css', 'css')
  const html = readFileSync(join(REPOSITORY, 'src/page/index.html'), 'utf8')
    .replace('page.css', style.name)
    .replace('page.js', script.name)
    .replace(/\n\s*/g, '\n')
  return { html, script, style }
}

/** The page in the form that the service expects, for a service that runs from its sources. */
export async function pageFromSources(): Promise<Page> {
  const { html, script, style } = await buildPage()
  return {
    html: () => html,
    assets: [
      { name: script.name, type: 'text/javascript; charset=utf-8', gzip: () => script.gzip },
      { name: style.name, type: 'text/css; charset=utf-8', gzip: () => style.gzip },
    ],
  }
}

async function bundled(source: string, extension: string): Promise<PageFile> {
  const { outputFiles } = await build({ ...PAGE, entryPoints: [join(REPOSITORY, 'src/page', source)] })
  const text = outputFiles.map(({ text }) => text).join('')
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 12)
  const gzip = Buffer.from(await gzipAsync(Buffer.from(text), { numiterations: 15 })).toString('base64')
  return { name: `page-${digest}.${extension}`, text, gzip }
}
