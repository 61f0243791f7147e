/** The configuration of Prometheus that src/fleet/README.md shows. */
import { join } from 'node:path'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { readText } from '../support/readme.ts'
import type { Owner } from './support.ts'

export const RULES = 'src/fleet/prometheus/receiverd.rules.yml'
/** It stands in a list. */
export const CONFIGURATION =
  /^ {3}```yaml\n( {3}rule_files.*?)^ {3}```/ms.exec(readText('src/fleet/README.md'))?.[1]?.replace(/^ {3}/gm, '') ?? ''

/**
 * The README's configuration, with the files of a test: prometheus.token, receivers.pem, receivers.json.
 * @param global The part that says how often.
 */
export function configurationOf(owner: Owner, global: string, rules = join(REPOSITORY, RULES)): string {
  return (
    CONFIGURATION.replace('/usr/share/receiverd-fleet/receiverd.rules.yml', rules)
      .replace('/run/receiverd-fleet/prometheus.token', owner.path('prometheus.token'))
      .replace('/etc/prometheus/receivers.pem', owner.path('receivers.pem'))
      .replace('/etc/prometheus/receivers.json', owner.path('receivers.json')) + global
  )
}
