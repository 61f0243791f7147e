/** Signed updates for emulated boards: the system that `make image` made, under another version. */
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { REPOSITORY } from '../../build/bundle-file.ts'
import type { Board } from './boards.ts'
import { prepareSystem } from './machine.ts'

const RELEASE = '/usr/lib/os-release'

/**
 * @param folder Where to make the bundle.
 * @param files Files that replace the system's own, by path.
 * @returns its path.
 */
export function makeBundle(
  folder: string,
  board: Board,
  version: string,
  files: Readonly<Record<string, string>> = {},
): string {
  const system = join(folder, `${version}.ext4`)
  execFileSync('cp', ['--sparse=always', board.system, system])
  const release = execFileSync('/sbin/debugfs', ['-R', `cat ${RELEASE}`, system], { encoding: 'utf8', stdio: 'pipe' })
  const changed = release.replace(/^IMAGE_VERSION=.*$/m, `IMAGE_VERSION=${version}`)
  prepareSystem(system, board, { [RELEASE]: changed, ...files })
  const out = join(folder, `${version}.raucb`)
  // A level that takes seconds instead of minutes.
  const env = { ...process.env, VERSION: version, BOARD: board.name, KEYS: join(REPOSITORY, '.keys'), LEVEL: '1' }
  execFileSync('build/image/bundle.sh', [system, out], { cwd: REPOSITORY, env, stdio: ['ignore', 'pipe', 'inherit'] })
  rmSync(system)
  return out
}
