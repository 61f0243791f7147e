/** The manual of receiverd-fleet, against what its package installs and its units name. */
import t from 'tap'
import { readText } from '../support/readme.ts'

const manual = readText('build/debian/receiverd-fleet.1').replaceAll('\\-', '-')
const rules = readText('build/debian/rules')
const units = ['service', 'timer']
  .map(type => readText(`src/fleet/prometheus/receiverd-fleet-token.${type}`))
  .join('\n')

t.test('the manual names every file of the package', async t => {
  const lines = rules.split('\n').filter(line => line.includes('install -D') && line.includes('debian/receiverd-fleet'))
  const shares = lines.flatMap(
    line => /debian\/receiverd-fleet(\/usr\/share\/receiverd-fleet\/\S+)$/.exec(line)?.[1] ?? [],
  )
  const installed = lines.flatMap(line => [...line.matchAll(/[\w.-]+\.(?:service|timer)\b/g)].map(([name]) => name))
  t.ok(shares.length >= 2)
  t.ok(installed.length >= 2)
  for (const path of [...shares, ...installed]) t.ok(manual.includes(path), path)
})

t.test('the manual names the files of the units', async t => {
  const paths = [...units.matchAll(/\/(?:etc|run)\/receiverd-fleet\/[\w.-]+/g)].map(([path]) => path)
  t.ok(paths.length >= 2)
  for (const path of paths) t.ok(manual.includes(path), path)
})
