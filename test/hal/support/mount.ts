import { execFileSync } from 'node:child_process'
import type { Test } from 'tap'

/** Mounts something until the end of the test. @returns false if mount(8) is not allowed here. */
export function mount(t: Test, at: string, ...args: string[]): boolean {
  try {
    execFileSync('mount', [...args, at], { stdio: 'ignore' })
  } catch {
    t.comment('mount(8) is not allowed here')
    return false
  }
  t.teardown(() => execFileSync('umount', ['--lazy', at]))
  return true
}
