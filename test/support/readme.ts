import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { REPOSITORY } from '../../build/bundle-file.ts'

/** Folders made or installed here, and git's own. */
const SKIPPED = new Set(['node_modules', 'out', '.git', '.tap'])

/** The paths of all Markdown files of the project, from its root. */
export const READMES: readonly string[] = markdownIn('')

/** The text of a file of the project, by its path from the root. */
export function readText(path: string): string {
  return readFileSync(join(REPOSITORY, path), 'utf8')
}

/** The examples in a language under a heading of a README, up to the next heading. */
export function examples(path: string, heading: string, language: string): readonly string[] {
  const [, section = ''] =
    new RegExp(`^#+ ${heading}\n(.*?)^#`, 'ms').exec(`${readText(path)}\n# `.replace(/^#+ /gm, '\n$&')) ?? []
  return Array.from(section.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms')), ([, code]) => code ?? '')
}

function markdownIn(folder: string): string[] {
  return readdirSync(join(REPOSITORY, folder), { withFileTypes: true }).flatMap(entry => {
    if (SKIPPED.has(entry.name)) return []
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return markdownIn(path)
    return entry.name.endsWith('.md') ? [path] : []
  })
}
