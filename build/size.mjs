// Prints what is in the bundle, and fails over the budget or where a module has come in that does not belong.
import { readFileSync } from 'node:fs'

const BUDGET_BYTES = 200_000
const BUNDLE = 'build/out/receiverd.cjs'
// What may be in it, and nothing else: our own two rooms, and of the two packages the parts that are used.
const ALLOWED = [
  /^src\//,
  /^hal\//,
  /^node_modules\/@noble\/hashes\/(_md|_u64|hmac|sha2|utils)\.js$/,
  /^node_modules\/typebox\/build\/((type|schema|guard|system|error)\/|format\/index\.mjs$)/,
]
const ALLOWED_BUILTINS = /^node:(buffer|child_process|crypto|fs|fs\/promises|http|net|os|path|stream|util)$/

const { outputs } = JSON.parse(readFileSync('build/out/metafile.json', 'utf8'))
const output = outputs[BUNDLE]
const sizes = new Map()
const foreign = []
for (const [path, { bytesInOutput }] of Object.entries(output.inputs)) {
  if (!ALLOWED.some(allowed => allowed.test(path))) foreign.push(path)
  const room = /^(node_modules\/(?:@[^/]+\/)?[^/]+(?:\/build\/[^/]+)?|src\/[^/.]+|[^/]+)/.exec(path)?.[0] ?? path
  sizes.set(room, (sizes.get(room) ?? 0) + bytesInOutput)
}
for (const { path } of output.imports) if (!ALLOWED_BUILTINS.test(path)) foreign.push(path)

for (const [room, bytes] of [...sizes].sort((a, b) => b[1] - a[1])) console.log(String(bytes).padStart(8), room)
console.log(String(output.bytes).padStart(8), `in all; the budget is ${BUDGET_BYTES}`)
if (foreign.length > 0) console.error(`does not belong into the bundle: ${foreign.join(', ')}`)
if (output.bytes > BUDGET_BYTES) console.error(`over the budget by ${output.bytes - BUDGET_BYTES} bytes`)
process.exitCode = foreign.length > 0 || output.bytes > BUDGET_BYTES ? 1 : 0
