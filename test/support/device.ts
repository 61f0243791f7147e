import { cpSync } from 'node:fs'
import type { Test } from 'tap'
import { temporaryFolder } from './folder.ts'

/** A device's root in a temporary folder, removed after the test: a copy of test/fixtures/NAME. */
export function deviceRoot(t: Test, fixture = 'receiver'): string {
  const root = temporaryFolder(t)
  cpSync(new URL(`../fixtures/${fixture}`, import.meta.url).pathname, root, {
    recursive: true,
    verbatimSymlinks: true,
  })
  return root
}
