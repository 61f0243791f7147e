import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { copierOf } from '../hal/support/tree.ts'
import { IN_MEMORY, temporaryFolder } from './folder.ts'

const copiers = new Map<string, ReturnType<typeof copierOf>>()

/** A device's root in a temporary folder, removed after the test: a copy of test/fixtures/NAME. */
export function deviceRoot(t: Test, fixture = 'receiver'): string {
  const root = temporaryFolder(t, IN_MEMORY)
  const copy = copiers.get(fixture) ?? copierOf(fileURLToPath(new URL(`../fixtures/${fixture}`, import.meta.url)))
  copiers.set(fixture, copy)
  copy(root)
  return root
}
