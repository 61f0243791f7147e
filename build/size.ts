// Prints what is in the bundle. Fails if it is over budget, or if it contains a module that does not belong there.
import { readFileSync } from 'node:fs'
import type { Metafile } from 'esbuild'

const BUDGET_BYTES = 220_000
/**
 * All that may be in it: our own code, and the parts of the two packages that are used. Of TypeBox, not `value`, which is
 * twice the size of `schema`, and not `compile`, which needs `new Function`.
 */
const ALLOWED = [
  /^(src|hal)\//,
  /^node_modules\/@noble\/hashes\/(_md|_u64|hmac|sha2|utils)\.js$/,
  /^node_modules\/typebox\/build\/(format|guard|schema(?!\/compile\.mjs)|system|type)\//,
]
const ALLOWED_BUILTINS = /^node:(child_process|crypto|fs|http|net|os|path|stream|util)$/

const metafile: Metafile = JSON.parse(readFileSync('build/out/metafile.json', 'utf8'))
const [output] = Object.values(metafile.outputs)
if (!output) throw new Error('build/out/metafile.json lists no bundle: run make build')

const sizes = new Map<string, number>()
const foreign: string[] = []
for (const [path, { bytesInOutput }] of Object.entries(output.inputs)) {
  if (!ALLOWED.some(allowed => allowed.test(path))) foreign.push(path)
  const room = /^(node_modules\/(?:@[^/]+\/)?[^/]+(?:\/build\/[^/]+)?|src\/[^/.]+|[^/]+)/.exec(path)?.[0] ?? path
  sizes.set(room, (sizes.get(room) ?? 0) + bytesInOutput)
}
for (const { path } of output.imports) if (!ALLOWED_BUILTINS.test(path)) foreign.push(path)

for (const [room, bytes] of [...sizes].sort((a, b) => b[1] - a[1])) console.log(String(bytes).padStart(8), room)
console.log(String(output.bytes).padStart(8), `in total; the budget is ${BUDGET_BYTES}`)
if (foreign.length > 0) console.error(`not allowed in the bundle: ${foreign.join(', ')}`)
if (output.bytes > BUDGET_BYTES) console.error(`over budget by ${output.bytes - BUDGET_BYTES} bytes`)
process.exitCode = foreign.length > 0 || output.bytes > BUDGET_BYTES ? 1 : 0
