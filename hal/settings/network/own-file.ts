import { hasConditions, matches } from '../../format/network-file.ts'
import type { System } from '../../os/system.ts'
import { refuse, type Violation } from '../../setting.ts'
import { networkFiles } from './files.ts'
import type { NetworkLink } from './links.ts'

/** Returns the path of this service's file for an interface. */
export function pathOf(name: string): string {
  return `/etc/systemd/network/${fileOf(name)}`
}

/** Reports whether `pathOf` may have returned a path, for an interface that is gone. */
export function isOwnFile(path: string): boolean {
  return /^\/etc\/systemd\/network\/10-receiverd-[\w.-]+\.network$/.test(path)
}

/** The name sorts before the files of distributions, and after those that an administrator or netplan puts first. */
function fileOf(name: string): string {
  return `10-receiverd-${name}.network`
}

/**
 * Returns why the file of this service cannot take effect. Other files are never edited: if one of them takes precedence, or
 * keeps the service's file from being read, the change is refused.
 */
export async function whyNotOurs(system: System, { name, facts }: NetworkLink): Promise<readonly Violation[]> {
  const own = fileOf(name)
  if ((await system.linkTarget(pathOf(name))) === '/dev/null') return refuse('', `${own} is masked`)
  const files = await networkFiles(system)
  const rival = files.find(file => file.name < own && matches(file.text, facts) !== false)
  if (rival) return refuse('', `set by ${rival.name}, which precedes ${own}`)
  const present = files.find(file => file.name === own)
  const isForAnother = present && hasConditions(present.text) && matches(present.text, facts) === false
  return refuse('', isForAnother ? `${own} is for another interface` : undefined)
}
