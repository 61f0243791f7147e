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

/** While this file exists, a factory reset must be finished before anything is served. */
const MARKER = '/factory-reset'

/** Where a journal and originals that could not be read are set aside. They may hold the owner's passwords. */
const SET_ASIDE = ['journal.bad', 'originals.bad']

/** The content of the marker if the settings from the card are to be removed, too. */
const FORGET_CARD = 'forget-card\n'

/**
 * Orders a factory reset. Once it returns, the reset is certain, even if the power fails.
 * @param forgetsCard Whether to also remove the settings from the card. Otherwise they are applied again.
 */
export async function orderReset(state: Files, forgetsCard: boolean): Promise<void> {
  await state.writeAtomic(MARKER, forgetsCard ? FORGET_CARD : '')
}

/**
 * Finishes a factory reset that was ordered: restores everything to its state before the first change, removes the API key,
 * and has the settings from the card applied again, or forgets them. If it is interrupted, the next start repeats all of it,
 * because the marker is removed last. Nothing else may change the configuration in the meantime.
 *
 * If no reset was ordered, tries again to restore what an earlier one could not.
 * @returns whether a reset was finished. The device must then be restarted, because running programs have read the old files.
 * @throws the system's own errors if the reset cannot be finished now.
 */
export async function finishReset(state: Files, system: System, log: Log): Promise<boolean> {
  // On another root, the reset is left to the device itself.
  if (!system.isRunning) return false
  await state.recover(MARKER)
  const order = await state.readText(MARKER)
  const warn = (what: string) => log('error', `factory reset: ${what}`)
  const originals = new Originals(state, warn)
  if (order === undefined && Object.keys(await originals.notReset.read()).length === 0) return false
  const settings = registry(system)
  // Files that depend on the hardware are known only after this.
  for (const setting of settings) await setting.unavailable?.().catch(() => undefined)
  const transactions = new Transactions(system, settings, new Journal(state), originals, warn)
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
  for (const name of SET_ASIDE)
    await state.remove(`/${name}`).catch(error => warn(`${name} could not be removed: ${reasonOf(error)}`))
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
