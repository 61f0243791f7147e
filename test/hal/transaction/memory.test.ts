/** Changes of large files within the memory that the service is given. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { deviceRoot } from '../../support/device.ts'

const HAL = new URL('../../../hal/', import.meta.url).href

/** Runs a script with the heap of receiverd.service. @returns the JSON that it printed. */
function run(root: string, script: string): unknown {
  const head = `
    const { Files } = await import('${HAL}files/files.ts')
    const { System } = await import('${HAL}os/system.ts')
    const { registry } = await import('${HAL}registry.ts')
    const { Journal } = await import('${HAL}transaction/journal.ts')
    const { Originals } = await import('${HAL}transaction/originals.ts')
    const { Transactions } = await import('${HAL}transaction/transaction.ts')
    const root = ${JSON.stringify(root)}
    const system = new System(root)
    const settings = registry(system)
    const state = new Files(root + '/state')
    const transactions = new Transactions(system, settings, new Journal(state), new Originals(state))
    const change = (name, previous, next) => ({ setting: settings.find(s => s.name === name), previous, next })
    let result
  `
  const args = ['--max-old-space-size=64', '--max-semi-space-size=2', '--import=tsx', '--input-type=module', '-e']
  const output = execFileSync(process.execPath, [...args, `${head}${script};console.log(JSON.stringify(result))`], {
    encoding: 'utf8',
  })
  return JSON.parse(output)
}

const HOSTNAME = "[change('hostname', 'receiver', 'lobby')]"

test('a file over the limit is refused with the name of its setting, and nothing changes', t => {
  const root = deviceRoot(t)
  writeFileSync(join(root, 'etc/hosts'), '0.0.0.0 ads.example\n'.repeat(500_000))
  const script = `result = await transactions.apply(${HOSTNAME}).catch(({ setting, notUndone, cause }) =>
    ({ setting, notUndone, message: cause.message }))`
  t.same(run(root, script), {
    setting: 'hostname',
    notUndone: [],
    message: 'one of its files is larger than 1 MiB',
  })
  t.equal(readFileSync(join(root, 'etc/hostname'), 'utf8'), 'receiver\n')
  t.end()
})

test('files up to the limit are kept, and put back by the next start', t => {
  const root = deviceRoot(t)
  const large = '0.0.0.0 ads.example\n'.repeat(52_428)
  for (const file of ['etc/hosts', 'etc/uxplayrc', 'etc/locale.conf']) writeFileSync(join(root, file), large)
  const airplay = '{ enabled: true, name: "Room", access: "open", maxResolution: "", restartPending: false }'
  run(
    root,
    `await transactions.apply([...${HOSTNAME}, change('locale', 'C.UTF-8', 'nl_BE.UTF-8'),
      change('airplay', ${airplay}, { ...${airplay}, name: 'Other' })]); result = true`,
  )
  t.equal(readFileSync(join(root, 'etc/hostname'), 'utf8'), 'lobby\n')
  t.same(run(root, 'result = await transactions.recover()'), {
    settings: ['airplay', 'locale', 'hostname'],
    notUndone: [],
  })
  t.equal(readFileSync(join(root, 'etc/hostname'), 'utf8'), 'receiver\n')
  for (const file of ['etc/hosts', 'etc/uxplayrc', 'etc/locale.conf'])
    t.ok(readFileSync(join(root, file), 'utf8') === large, file)
  t.end()
})

test('a change of more than the journal takes is refused before it is begun', t => {
  const root = deviceRoot(t)
  const large = 'x'.repeat(1024 * 1024)
  for (const file of ['etc/hosts', 'etc/locale.conf', 'etc/timezone', 'etc/machine-info', 'etc/uxplayrc'])
    writeFileSync(join(root, file), large)
  const script = `result = await transactions.apply([...${HOSTNAME}, change('deviceName', 'a', 'b'),
    change('locale', 'C.UTF-8', 'nl_BE.UTF-8'),
    change('timezone', 'UTC', 'UTC'), change('airplay', {}, {})]).catch(({ setting, cause }) => ({ setting, message: cause.message }))`
  t.same(run(root, script), {
    setting: 'the journal',
    message: 'its files are larger than 4 MiB',
  })
  t.equal(readFileSync(join(root, 'etc/hostname'), 'utf8'), 'receiver\n')
  t.end()
})

test('a journal that is all brackets does not exhaust the memory', t => {
  const root = deviceRoot(t)
  const script = `result = []
    for (const text of ['[', '{"version":1,"undos":', '[{},[],']) {
      await new Files(root + '/state').writeAtomic('/journal', text.repeat(500_000))
      result.push(await transactions.recover().catch(({ message }) => message))
    }`
  for (const message of run(root, script) as string[]) t.match(message, /set aside/)
  t.end()
})
