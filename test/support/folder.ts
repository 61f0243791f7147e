import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** A temporary folder, removed after the test. */
export function temporaryFolder(t: Pick<Test, 'teardown'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'receiverd-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
