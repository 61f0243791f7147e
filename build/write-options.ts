/** Brings the committed lists of options up to date with src/options.ts. */
import { readFileSync, writeFileSync } from 'node:fs'
import { PATHS, withOptions } from './options.ts'

for (const path of PATHS) {
  const text = readFileSync(path, 'utf8')
  const updated = withOptions(path, text)
  if (updated !== text) writeFileSync(path, updated)
}
