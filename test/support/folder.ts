import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** Where files are in memory, if there is such a place: to copy and remove many there takes a tenth, and fsync(2) nothing. */
export const IN_MEMORY = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

/** A temporary folder, removed after the test. */
export function temporaryFolder(t: Pick<Test, 'teardown'>, parent = tmpdir()): string {
  const folder = mkdtempSync(join(parent, 'receiverd-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
