/** The READMEs: what they name and link to exists, none repeats another, and the first stays a door. */
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { READMES, readText } from '../support/readme.ts'

const MAX_DOOR_BYTES = 8 * 1024
/** Words of a sentence that two READMEs may share. */
const MAX_SHARED_WORDS = 8

const texts = new Map(READMES.map(path => [path, readText(path)]))
const everything = [...texts.values()].join('\n')

t.test('README.md is a door', async t => {
  const bytes = Buffer.byteLength(texts.get('README.md') ?? '')
  t.ok(bytes > 0 && bytes <= MAX_DOOR_BYTES, `${bytes} bytes`)
})

t.test('files and folders', async t => {
  const paths = new Set(
    Array.from(everything.matchAll(/(?<![\w/.])(?:src|hal|test|build)\/[\w./-]*\w\/?/g), ([path]) => path),
  )
  t.ok(paths.size > 60)
  for (const path of paths)
    if (!/^build\/out|NAME|node_modules/.test(path)) t.ok(existsSync(join(REPOSITORY, path)), path)
})

t.test('the map names every folder of src and hal', async t => {
  const map = texts.get('README.md') ?? ''
  for (const folder of ['src', 'hal'])
    for (const name of foldersIn(folder)) t.match(map, `\n${folder}/${name}/ `, `${folder}/${name}/`)
})

t.test('targets of make', async t => {
  const makefile = readText('Makefile') + readText('build/package/install.mk')
  const targets = new Set(Array.from(everything.matchAll(/(?:`|^|&& )make\s([a-z-]+)/gm), ([, target]) => target))
  t.ok(targets.size > 14)
  for (const target of targets) t.ok(new RegExp(`^${target}:`, 'm').test(makefile), `make ${target}`)
})

t.test('links', async t => {
  let count = 0
  for (const [path, text] of texts)
    for (const [, target = ''] of withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const [file = '', anchor] = target.split('#')
      const linked = file ? join(dirname(path), file) : path
      t.ok(existsSync(join(REPOSITORY, linked)), `${path}: ${target}`)
      if (anchor) t.ok(anchorsOf(linked).has(anchor), `${path}: ${target}`)
      count++
    }
  t.ok(count > 20)
  for (const path of READMES)
    if (path !== 'README.md') t.match(texts.get('README.md'), `](${path})`, `README.md leads to ${path}`)
})

t.test('no sentence is said twice', async t => {
  const said = new Map<string, string>()
  for (const [path, text] of texts)
    for (const sentence of sentencesOf(text)) {
      t.equal(said.get(sentence), undefined, `${path}: ${sentence}`)
      said.set(sentence, path)
    }
  t.ok(said.size > 250)
})

function foldersIn(folder: string): readonly string[] {
  const entries = readdirSync(join(REPOSITORY, folder), { withFileTypes: true })
  return entries.filter(entry => entry.isDirectory()).map(({ name }) => name)
}

/** The sentences and cells of tables that are longer than two READMEs may share, as words alone. */
function sentencesOf(text: string): readonly string[] {
  return withoutCode(text)
    .split(/\n\s*\n|\n(?=[-|#\d])|\||(?<=[.:;!?])\s/)
    .map(sentence => sentence.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])
    .filter(words => words.length > MAX_SHARED_WORDS)
    .map(words => words.join(' '))
}

function withoutCode(text: string): string {
  return text.replace(/^```.*?^```$/gms, '')
}

/** The anchors of a file's headings, as GitHub makes them. */
function anchorsOf(path: string): ReadonlySet<string> {
  const headings = withoutCode(texts.get(path) ?? '').matchAll(/^#+ (.*)$/gm)
  return new Set(
    Array.from(headings, ([, heading = '']) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}
