import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { OUT, REPOSITORY } from './disk.ts'

/** Why no machine can run here, for a test's `skip`. False if one can. */
export const NO_RIG: string | false = whyNot()

function whyNot(): string | false {
  if (process.getuid?.() !== 0) return 'needs root to create namespaces'
  const recipe = createHash('sha256')
    .update(readFileSync(join(REPOSITORY, 'build/rig.sh')))
    .digest('hex')
  if (!made().startsWith(recipe)) return 'the root file system is missing or out of date: run make rig'
  if (!succeeds('ip', ['-V'])) return 'ip is not installed: apt-get install iproute2'
  const namespaces = ['--mount', '--pid', '--fork', '--uts', '--ipc', '--net', '--cgroup']
  if (!succeeds('unshare', [...namespaces, 'true'])) return 'not permitted to create namespaces'
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
