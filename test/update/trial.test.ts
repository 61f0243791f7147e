import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { Files } from '../../hal/files/files.ts'
import { TrialRecords } from '../../src/update/trial.ts'
import { temporaryFolder } from '../support/folder.ts'

test('a version that was rolled back or discarded is refused until it is installed, whatever comes in between', async t => {
  const folder = temporaryFolder(t)
  const records = new TrialRecords(new Files(folder))
  t.strictSame(await records.refused(), [])
  await records.conclude({ version: '1.1.0', outcome: 'rolled back', reason: 'did not start' })
  await records.conclude({ version: '1.2.0', outcome: 'failed', reason: 'interrupted' })
  await records.conclude({ version: '1.3.0', outcome: 'discarded' })
  await records.conclude({ version: '1.1.0', outcome: 'failed', reason: 'interrupted' })
  await records.conclude({ version: '1.4.0', outcome: 'installed' })
  t.strictSame(await new TrialRecords(new Files(folder)).refused(), ['1.1.0', '1.3.0'])
  await records.conclude({ version: '1.1.0', outcome: 'installed' })
  t.strictSame(await records.refused(), ['1.3.0'])
})

test('the latest sixteen are refused', async t => {
  const records = new TrialRecords(new Files(temporaryFolder(t)))
  for (let n = 0; n < 20; n++) await records.conclude({ version: `1.${n}.0`, outcome: 'rolled back' })
  await records.conclude({ version: '1.4.0', outcome: 'rolled back' })
  const refused = await records.refused()
  t.equal(refused.length, 16)
  t.strictSame([refused[0], ...refused.slice(-2)], ['1.5.0', '1.19.0', '1.4.0'])
})

test('a damaged list counts as empty, and is replaced', async t => {
  const folder = temporaryFolder(t)
  const path = join(folder, 'refused.json')
  const records = new TrialRecords(new Files(folder))
  for (const spoil of [
    () => writeFileSync(path, '{"versions":["1.0'),
    () => writeFileSync(path, '{"versions":[1]}'),
    () => writeFileSync(path, 'x'.repeat(100_000)),
    () => mkdirSync(path),
  ]) {
    rmSync(path, { force: true })
    spoil()
    t.strictSame(await records.refused(), [])
    await records.conclude({ version: '1.0.0', outcome: 'installed' })
    await records.conclude({ version: '1.1.0', outcome: 'rolled back' })
    t.strictSame(await records.refused(), ['1.1.0'])
  }
})
