// Prints what the last test run left out, and what it would take to run it: a line per tier, from the results that tap keeps.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const RESULTS = '.tap/test-results'
/** Where the results of a tier's files are. Results of programs that several tests share are somewhere else. */
const TIER = /^(?:build\/out\/tests\/)?test\/([^/]+)\//
const SKIPPED = /^ *ok \d+.* # SKIP ?(.*?)\r?$/gm
/** A test of the file itself, not a subtest. */
const RAN = /^(not )?ok (?!.* # SKIP)/m
const INSTALL = 'install '

/** The files of a tier that were skipped: either those skipped as a whole, or those skipped in part. */
interface LeftOut {
  readonly tier: string
  readonly isAll: boolean
  files: number
  readonly reasons: Set<string>
}

const groups = new Map<string, LeftOut>()
const names = existsSync(RESULTS) ? readdirSync(RESULTS, { recursive: true, encoding: 'utf8' }) : []
for (const name of names.filter(name => name.endsWith('.tap')).sort()) {
  const results = readFileSync(join(RESULTS, name), 'utf8')
  const skipped = [...results.matchAll(SKIPPED)]
  if (skipped.length === 0) continue
  const tier = TIER.exec(name)?.[1] ?? 'unit'
  const isAll = !RAN.test(results)
  const group = groups.get(`${tier} ${isAll}`) ?? { tier, isAll, files: 0, reasons: new Set() }
  groups.set(`${tier} ${isAll}`, group)
  group.files++
  for (const [, reason = ''] of skipped) group.reasons.add(reason)
}
for (const { tier, isAll, files, reasons } of groups.values())
  console.log(
    `${tier}: ${files} file${files === 1 ? '' : 's'} skipped${isAll ? '' : ' in part'}: ${summary([...reasons])}`,
  )

/** All packages as one list, and then everything else that is needed. */
function summary(reasons: readonly string[]): string {
  const packages = reasons.filter(reason => reason.startsWith(INSTALL)).flatMap(reason => reason.split(' ').slice(1))
  const others = reasons.filter(reason => !reason.startsWith(INSTALL))
  const install = packages.length > 0 ? [INSTALL + [...new Set(packages)].sort().join(' ')] : []
  return [...install, ...others].join('; ')
}
