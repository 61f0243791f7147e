import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { IN_MEMORY } from '../../support/folder.ts'

/** Where the originals of a root's files are kept: beside it, so that they do not count as a change of the device. */
export function originalsOf(root: string): string {
  return `${root}.originals`
}

/** A root of the test's own, with an empty /etc. */
export function newRoot(t: Test): string {
  const root = mkdtempSync(join(IN_MEMORY, 'receiverd-'))
  t.teardown(() => {
    for (const path of [root, originalsOf(root)]) rmSync(path, { recursive: true, force: true })
  })
  mkdirSync(join(root, 'etc'))
  return root
}

/** Paths in a folder: the type, mode, owner and content of each as one text, so that trees can be compared. */
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

/** The paths that differ. A folder that appears or disappears does not count. */
export function changedPaths(before: Tree, after: Tree): readonly string[] {
  const isNews = (path: string) => {
    const [was, is] = [before[path], after[path]]
    return was !== is && !((was === undefined || is === undefined) && (was ?? is)?.startsWith('folder '))
  }
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(isNews).sort()
}

/** Temporary files under a folder. */
export function leftoversIn(root: string): readonly string[] {
  return pathsBelow(root).filter(path => path.includes('.receiverd-'))
}

function pathsBelow(root: string): readonly string[] {
  // With their types: for names alone Node would look behind links, and a link under /sys leads back to its parent.
  return readdirSync(root, { recursive: true, withFileTypes: true }).map(({ parentPath, name }) =>
    join(parentPath, name).slice(root.length),
  )
}

/** Makes copies of a folder of files and links. The contents are kept in memory: a test makes thousands of copies. */
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
