/** The contract finds settings that break it: each of these is a good one with one mistake. */
import { Test, test } from 'tap'
import type { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import type { Setting } from '../../hal/setting.ts'
import { failureContract } from './failure-contract.ts'
import { readingContract } from './reading-contract.ts'
import { runningContract } from './running-contract.ts'
import type { WritableSubject } from './subject.ts'
import { VALUES } from './values.ts'
import { writingContract } from './writing-contract.ts'

type Contract = (t: Test, subject: WritableSubject) => Promise<void>
/** A mistake in a setting. */
type Mistake = (setting: Setting, system: System) => Partial<Setting>

/** The setting with its mistake; everything else, such as `files`, is as it is. */
function subjectOf(name: string, mistake: Mistake): WritableSubject {
  return {
    name,
    values: VALUES[name] ?? [null, null],
    settings: system =>
      registry(system).map(setting =>
        setting.name === name ? Object.assign(Object.create(setting, {}), mistake(setting, system)) : setting,
      ),
  }
}

/** Runs a contract by itself; returns the names of the failures, innermost last. */
async function failuresOf(contract: Contract, subject: WritableSubject): Promise<readonly string[]> {
  const inner = new Test({ name: subject.name } as object)
  let output = ''
  inner.on('data', chunk => {
    output += chunk
  })
  await contract(inner, subject)
  inner.end()
  return Array.from(output.matchAll(/^ *not ok \d+ - (.*?)(?: # time=.*)?$/gm), ([, name = '']) => name)
}

const MISTAKES: readonly (readonly [
  what: string,
  name: string,
  contract: Contract,
  failure: RegExp,
  mistake: Mistake,
])[] = [
  [
    'no activate',
    'airplay',
    runningContract,
    /either activate or withoutActivate/,
    () => ({ activate: undefined as never }),
  ],
  [
    'no activate, in a setting that a boot shows nothing of',
    'deviceName',
    runningContract,
    /either activate or withoutActivate/,
    () => ({ withoutActivate: undefined as never }),
  ],
  [
    'no activate, and a wrong reason for it',
    'hostname',
    runningContract,
    /must already use the value before the next boot/,
    () => ({ activate: undefined as never, withoutActivate: 'nobody asks for the name' }),
  ],
  [
    'activate that does nothing',
    'ssh',
    runningContract,
    /must already use the value before the next boot/,
    () => ({ activate: nothing }),
  ],
  [
    'activate that does nothing, where a boot shows nothing either',
    'timezone',
    runningContract,
    /nothing in the fake receiver/,
    () => ({ activate: nothing, withoutActivate: undefined as never }),
  ],
  [
    'both activate and a reason for none',
    'ntp',
    runningContract,
    /either activate or withoutActivate|without activate/,
    () => ({ withoutActivate: 'no need' }),
  ],
  [
    'activate that switches on and off, but does not have rewritten files read',
    'airplay',
    runningContract,
    /a change of each member by itself/,
    ({ activate }) => ({
      activate: async (value, previous, isRewritten) => {
        const [now, before] = [value, previous] as { enabled: boolean }[]
        if (now?.enabled !== before?.enabled) await activate?.(value, previous, isRewritten)
      },
    }),
  ],
  [
    'activate that always restarts',
    'airplay',
    runningContract,
    /the same value again restarts nothing/,
    ({ activate }) => ({ activate: (value, previous) => activate?.(value, previous, true) ?? nothing() }),
  ],
  [
    'activate that swallows errors',
    'ssh',
    runningContract,
    /a command that fails changes nothing/,
    ({ activate }) => ({ activate: async (...args) => activate?.(...args).catch(nothing) }),
  ],
  [
    'write that writes nothing',
    'locale',
    writingContract,
    /what is written is read/,
    () => ({ write: async () => true }),
  ],
  [
    'write that changes a file not named in files',
    'locale',
    writingContract,
    /only its files change/,
    ({ write }, system) => ({
      write: async value => {
        await system.writeAtomic('/etc/environment', `LANG=${value}\n`)
        return (await write?.(value)) ?? false
      },
    }),
  ],
  [
    'write that does not say that it changed a file',
    'ntp',
    writingContract,
    /returns whether it changed a file/,
    ({ write }) => ({
      write: async value => {
        await write?.(value)
        return false
      },
    }),
  ],
  [
    'write that always writes',
    'timezone',
    writingContract,
    /writing the same value again touches no file/,
    ({ write }, system) => ({
      write: async value => {
        await system.remove('/etc/timezone')
        await system.writeAtomic('/etc/timezone', 'x')
        return (await write?.(value)) ?? false
      },
    }),
  ],
  [
    'write that goes through a half-written file, without a journal',
    'deviceName',
    failureContract,
    /after a stop at any step/,
    ({ write }, system) => ({
      write: async value => {
        const present = await system.readText('/etc/machine-info')
        if (!present?.includes(String(value))) await system.writeAtomic('/etc/machine-info', '')
        return (await write?.(value)) ?? false
      },
    }),
  ],
  [
    'write that swallows errors',
    'hostname',
    failureContract,
    /a system call that fails changes nothing/,
    ({ write }) => ({ write: async value => (await write?.(value).catch(() => false)) ?? false }),
  ],
  [
    'check that writes',
    'locale',
    writingContract,
    /a check has no side effects/,
    ({ write }) => ({
      check: async next => {
        await write?.(next)
        return []
      },
    }),
  ],
  [
    'check that refuses good values',
    'locale',
    writingContract,
    /the check accepts it/,
    () => ({ check: async () => [{ pointer: '', detail: 'no' }] }),
  ],
  [
    'read that leaves something behind',
    'hostname',
    readingContract,
    /reading creates nothing/,
    ({ read }, system) => ({
      read: async () => {
        await system.writeAtomic('/run/seen', '')
        return read()
      },
    }),
  ],
  [
    'read that believes whatever is stored',
    'ssh',
    readingContract,
    /match the schema/,
    () => ({ read: async () => ({ enabled: 'yes' }) }),
  ],
  [
    'fallback that does not match the schema',
    'locale',
    readingContract,
    /the fallback match the schema/,
    () => ({ fallback: async () => '' }),
  ],
]

async function nothing(): Promise<void> {}

for (const [what, name, contract, failure, mistake] of MISTAKES)
  test(`${name}: ${what}`, async t => {
    const failures = await failuresOf(contract, subjectOf(name, mistake))
    t.ok(
      failures.some(one => failure.test(one)),
      `fails with ${failure}`,
      { failures },
    )
  })

test('without a mistake, nothing fails', async t => {
  const subject = subjectOf('ssh', () => ({}))
  for (const contract of [readingContract, writingContract, failureContract, runningContract])
    t.same(await failuresOf(contract, subject), [])
})
