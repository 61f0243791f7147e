/** Runs one target: node fuzz.mjs TARGET with EXECUTIONS, SECONDS and SEED in the environment. Ends with a line of JSON. */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { lineOf, readCorpus, writeCorpus } from './corpus.ts'
import { fuzz } from './fuzzer.ts'
import { TARGETS } from './targets/targets.ts'
import { watchForHangs } from './watchdog.ts'

const { EXECUTIONS, SECONDS, SEED = '1', FOUND } = process.env
const [, , name] = process.argv

const target = TARGETS.find(target => target.name === name)
if (!target) {
  console.error(`there is no target ${name}; the targets are: ${TARGETS.map(({ name }) => name).join(', ')}`)
  process.exit(2)
}
const committed = fileURLToPath(new URL(`corpus/${name}.txt`, import.meta.url))
const found = FOUND === undefined ? undefined : join(FOUND, `${name}.txt`)
const began = performance.now()
const { paths, finding, ...counts } = await fuzz(target, {
  seed: Number(SEED),
  executions: EXECUTIONS === undefined ? (SECONDS ? Number.POSITIVE_INFINITY : target.executions) : Number(EXECUTIONS),
  ms: SECONDS === undefined ? Number.POSITIVE_INFINITY : Number(SECONDS) * 1000,
  corpus: [...readCorpus(committed), ...(found ? readCorpus(found) : [])],
  begins: watchForHangs(),
})
await target.close?.()
if (found) writeCorpus(found, paths)
if (finding) {
  console.error(`FINDING ${finding.reason}`)
  console.error(`to keep it, add this line to test/fuzz/corpus/${name}.txt:\n${lineOf(finding.input)}`)
}
console.log(
  JSON.stringify({
    target: name,
    ...counts,
    paths: paths.length,
    seconds: Math.round((performance.now() - began) / 1000),
  }),
)
process.exit(finding ? 1 : 0)
