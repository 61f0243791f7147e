import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** A device's root in a temporary folder, gone after the test. Its files are those of test/fixtures/NAME. */
export function deviceRoot(t: Test, fixture = 'receiver'): string {
  const root = mkdtempSync(join(tmpdir(), 'receiverd-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  cpSync(new URL(`../fixtures/${fixture}`, import.meta.url).pathname, root, {
    recursive: true,
    verbatimSymlinks: true,
  })
  return root
}
