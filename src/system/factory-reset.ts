import { reasonOf } from '../../hal/errors.ts'
import type { Files } from '../../hal/files/files.ts'
import { CertificateFiles } from '../../hal/os/certificate.ts'
import type { System } from '../../hal/os/system.ts'
import { registry } from '../../hal/registry.ts'
import { Journal } from '../../hal/transaction/journal.ts'
import { Originals } from '../../hal/transaction/originals.ts'
import { Transactions } from '../../hal/transaction/transaction.ts'
import { removeKey } from '../auth/key-file.ts'
import type { Log } from '../log.ts'
import { resetCard } from './card/memory.ts'
import { KeptTrial } from './kept-trial.ts'

/** While it is there, a factory reset is to be finished before anything is served. */
const MARKER = '/factory-reset'

/** The content of the marker if what the card gave is to go, too. */
const FORGET_CARD = 'forget-card\n'

/**
 * From when this returns the device will be reset, whatever happens to the power.
 * @param forgetsCard Whether what the card gave is removed, too. Otherwise it is taken again.
 */
export async function orderReset(state: Files, forgetsCard: boolean): Promise<void> {
  await state.writeAtomic(MARKER, forgetsCard ? FORGET_CARD : '')
}

/**
 * Finishes a factory reset that was ordered: puts back what was there before the first change, removes the API key, and
 * has what the card gave taken again, or forgets it. A stop at any moment leaves it to the next start, which does all of it
 * again: the marker is removed last. Nothing else may change the configuration meanwhile.
 *
 * If none was ordered, tries again to put back what an earlier one could not.
 * @returns whether there was one. Then the device must be restarted, because running programs have read the files as they were.
 * @throws the system's own errors if it cannot be finished now.
 */
export async function finishReset(state: Files, system: System, log: Log): Promise<boolean> {
  // On another root it is left to the device itself.
  if (!system.isRunning) return false
  await state.recover(MARKER)
  const order = await state.readText(MARKER)
  const warn = (what: string) => log('error', `factory reset: ${what}`)
  const originals = new Originals(state, warn)
  if (order === undefined && Object.keys(await originals.notReset.read()).length === 0) return false
  const settings = registry(system)
  // Only now are the files known that depend on the hardware.
  for (const setting of settings) await setting.unavailable?.().catch(() => undefined)
  const transactions = new Transactions(system, settings, new Journal(state), originals)
  const certificates = new CertificateFiles(system)
  if (order === undefined) {
    const resumed = await transactions.resumeReset((name, paths) => certificates.needs(name, paths))
    const [done, left] = [resumed?.settings ?? [], resumed?.notUndone ?? []]
    const isDone = (name: string) => !left.includes(name)
    if (done.some(isDone)) log('notice', `factory reset: put back now: ${namesOf(done.filter(isDone))}`)
    if (left.length > 0) warn(`could not be put back: ${namesOf(left)}`)
    return false
  }
  log('notice', 'factory reset: restoring the original configuration')
  await transactions.recover().catch(error => warn(`the journal of an unfinished change: ${reasonOf(error)}`))
  const { notUndone } = await transactions.reset([certificates.removalOfSetAside])
  if (notUndone.length > 0) warn(`could not be put back: ${namesOf(notUndone)}`)
  await new KeptTrial(state).forget()
  await removeKey(state)
  await resetCard(state, order === FORGET_CARD)
  await state.remove(MARKER)
  log('notice', 'factory reset: done')
  return true
}

function namesOf(settings: readonly string[]): string {
  return [...new Set(settings)].join(', ')
}
