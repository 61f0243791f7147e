import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { NEEDS_ROOT, needs } from '../support/needs.ts'
import { OUT, REPOSITORY } from './disk.ts'

/** Why no machine can run here, for a test's `skip`. False if one can. */
export const NO_RIG: string | false = whyNot()

function whyNot(): string | false {
  if (NEEDS_ROOT) return NEEDS_ROOT
  const recipe = createHash('sha256')
    .update(readFileSync(join(REPOSITORY, 'build/rig.sh')))
    .digest('hex')
  if (!made().startsWith(recipe)) return 'run make rig'
  if (needs('ip')) return needs('ip')
  const namespaces = ['--mount', '--pid', '--fork', '--uts', '--ipc', '--net', '--cgroup']
  if (!succeeds('unshare', [...namespaces, 'true'])) return 'allow root to create namespaces'
  return false
}

function made(): string {
  try {
    return readFileSync(join(OUT, 'recipe'), 'utf8')
  } catch {
    return ''
  }
}

function succeeds(program: string, args: readonly string[]): boolean {
  try {
    execFileSync(program, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
