import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** What stands below a folder: each path with its type, mode, owner and content as one text, so that two can be compared. */
export type Tree = Readonly<Record<string, string>>

export function treeOf(root: string): Tree {
  return Object.fromEntries(
    pathsBelow(root).map(path => {
      const at = join(root, path)
      const stat = lstatSync(at)
      const owner = `${(stat.mode & 0o7777).toString(8)} ${stat.uid}:${stat.gid}`
      if (stat.isSymbolicLink()) return [path, `link ${readlinkSync(at)}`]
      if (stat.isDirectory()) return [path, `folder ${owner}`]
      if (stat.isFile()) return [path, `file ${owner} ${readFileSync(at, 'latin1')}`]
      return [path, `other ${owner}`]
    }),
  )
}

/** The paths that are not the same in both. Folders that come or go empty count as nothing. */
export function changedPaths(before: Tree, after: Tree): readonly string[] {
  const isNews = (path: string) => {
    const [was, is] = [before[path], after[path]]
    return was !== is && !((was === undefined || is === undefined) && (was ?? is)?.startsWith('folder '))
  }
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(isNews).sort()
}

/** Temporary files below a folder. */
export function leftoversIn(root: string): readonly string[] {
  return pathsBelow(root).filter(path => path.includes('.receiverd-'))
}

function pathsBelow(root: string): readonly string[] {
  // By their entries: names alone would be looked for behind links, too, and a link of /sys leads to where it stands.
  return readdirSync(root, { recursive: true, withFileTypes: true }).map(({ parentPath, name }) =>
    join(parentPath, name).slice(root.length),
  )
}

/** Makes copies of a folder with files and links in it, from memory: a thousand of them are no matter. */
export function copierOf(source: string): (target: string) => void {
  const makers = pathsBelow(source).map(path => {
    const at = join(source, path)
    const stat = lstatSync(at)
    if (stat.isDirectory()) return (target: string) => mkdirSync(target + path, stat.mode)
    if (stat.isSymbolicLink()) {
      const link = readlinkSync(at)
      return (target: string) => symlinkSync(link, target + path)
    }
    const bytes = readFileSync(at)
    return (target: string) => writeFileSync(target + path, bytes, { mode: stat.mode })
  })
  return target => {
    for (const make of makers) make(target)
  }
}
