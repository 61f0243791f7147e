/** The Device Management page: signs in, and shows the device while it accepts the credential. */
import { Client, isRefusedForNow, messageOf, Refusal, Unreachable } from './client.ts'
import {
  dropCredential,
  dropNextKey,
  forgetCredential,
  isKept,
  nextKey,
  onStoredElsewhere,
  type SignInLink,
  storeCredential,
  storedCredential,
  storeInTab,
  storeReplacement,
  takeLink,
} from './credential.ts'
import { Device } from './device.ts'
import { ask } from './dialog.ts'
import { button, h } from './dom.ts'
import { reloadOffer } from './reload-offer.ts'
import { shell } from './shell.ts'
import { signInForm } from './sign-in.ts'
import * as texts from './texts.ts'
import { announce } from './toast.ts'
import { joining } from './trial/joining.ts'
import { runTrial, trialHere } from './trial/trial.ts'
import { ONLY_NOW, replaceKey, showKeyOf } from './views/access.ts'
import { whileShown } from './while-shown.ts'

const RETRY_MS = 3_000
/** Milliseconds between two looks at whether another tab has signed in or out. */
const FOLLOW_MS = 1_000

interface Opening {
  /** Stores the accepted credential; undefined if it is already stored. */
  readonly store?: (credential: string) => void
  /** The fragment of the link. */
  readonly fragment?: string
  readonly isConfirming?: boolean
  readonly joining?: string | undefined
  readonly isMoved?: boolean
  readonly isSetup?: boolean
  /** The key that this one may have replaced, which is opened again if this one is refused. */
  readonly replaced?: readonly [credential: string, opening: Opening]
}

let device: Device | undefined
/** The credential in use, or being tried. */
let current: string | undefined
/** Whether that is stored. While it is not, as that of a link that is being opened, this tab does not follow the others. */
let isStored = true
/** Counts the attempts to open the device: only the latest may show anything. */
let attempts = 0
/** Closes the question whether to follow another tab. */
let closeQuestion: () => void = () => undefined

/** The dialog with a new API key, which is shown only once. */
const keyDialog = () => document.querySelector<HTMLDialogElement>(`dialog:has(.${ONLY_NOW})`)

/** Replaces everything on the page except dialogs: a new key must stay visible until it is copied. */
function show(...elements: readonly HTMLElement[]): void {
  for (const element of [...document.body.children]) if (!element.matches('dialog, .toast')) element.remove()
  document.body.prepend(...elements)
}

/**
 * @param why Why the credential was refused; empty if it was not.
 * @param opening For the credential that is entered.
 * @param refused The credential that was refused.
 */
function signIn(why = '', opening: Opening = {}, refused?: string): void {
  attempts++
  leave()
  current = undefined
  isStored = true
  document.title = texts.product
  show(
    h(
      'main',
      { class: 'centre' },
      signInForm(why, (credential, isKept) =>
        open(credential, { ...opening, store: accepted => storeCredential(accepted, isKept, refused) }),
      ),
    ),
  )
  document.querySelector('input')?.focus()
}

/** Leaves the device, and closes the dialogs about it. A new key can still be copied: it may be in force without this page. */
function leave(): void {
  device?.close()
  device = undefined
  const kept = keyDialog()
  for (const dialog of document.querySelectorAll('dialog')) if (dialog !== kept) dialog.close()
}

function signOut(): void {
  unlessUnsaved(texts.signOutTitle, texts.signOut, () => {
    forgetCredential()
    signIn()
  })
}

/** Calls `go`, after a question if something would be lost. Returns a function that closes the question. */
function unlessUnsaved(title: string, action: string, go: () => void, lost = device?.losses ?? []): () => void {
  if (lost.length > 0) return ask({ title, content: lost.map(text => h('p', {}, text)), action, go })
  go()
  return () => undefined
}

async function open(credential: string, opening: Opening = {}): Promise<void> {
  const attempt = ++attempts
  leave()
  current = credential
  isStored = opening.store === undefined
  const { isConfirming = false, joining } = opening
  const refused = (why: string) => {
    if (attempt !== attempts) return
    const shown = keyDialog()
    if (shown?.querySelector('input')?.value === credential) shown.close()
    // Neither this key nor the one before it is in force.
    if (opening.replaced && !isStored) {
      dropNextKey()
      return void open(...opening.replaced)
    }
    // It was replaced, but the page was closed before the answer, or the answer was not that of the device.
    const next = nextKey(credential)
    if (next !== undefined)
      return void open(next, {
        store: () => storeReplacement(credential, next),
        replaced: [credential, opening],
      })
    // Another tab has replaced it.
    if (isStored && isKept() && storedCredential() !== credential) return goOn()
    dropCredential(credential)
    if (device || !isConfirming) signIn(why, {}, credential)
    else signIn(`${why} ${texts.trialSignIn}`, { isConfirming, joining }, credential)
  }
  show(h('main', { class: 'centre', role: 'status' }, h('p', {}, texts.connecting)))
  for (let shown = ''; ; ) {
    try {
      const opened = await Device.open(new Client(credential), refused)
      if (attempt !== attempts) return opened.close()
      return await enter(opened, opening, refused)
    } catch (error) {
      if (attempt !== attempts) return
      const isForNow = isRefusedForNow(error)
      if (error instanceof Refusal && error.status === 401 && !error.isForNow) return refused(error.message)
      const isAway = error instanceof Unreachable || error instanceof Refusal
      if (!isAway) throw error
      // A reload must not lose it. Any other credential that is stored may be a better one.
      if (isForNow && [undefined, credential].includes(storedCredential())) store(credential, opening)
      const help = isConfirming ? texts.trialSignIn : ''
      const why = isForNow ? `${texts.refusedForNow(error.message)} ${help}` : texts.retrying
      const giveUp = () => {
        // One that is kept for all tabs is for the others.
        if (isStored || !isKept()) forgetCredential()
        signIn(help, { isConfirming, joining })
      }
      const offer = isForNow ? [button(texts.signOut, giveUp)] : reloadOffer(opening.fragment)
      // Once, to keep the focus where it is, and a screen reader silent.
      if (why !== shown) show(h('main', { class: 'centre', role: 'status' }, h('p', {}, why), ...offer))
      shown = why
      await new Promise(resolve => setTimeout(resolve, RETRY_MS))
      if (attempt !== attempts) return
    }
  }
}

/** Stores the credential once: another tab may sign out at any time after that. */
function store(credential: string, opening: Opening): void {
  if (!isStored) opening.store?.(credential)
  isStored = true
}

async function enter(opened: Device, opening: Opening, refused: (why: string) => void): Promise<void> {
  const { readsSystem, changesSystem, seesSessions } = opened.grants
  if (!readsSystem && !changesSystem && !seesSessions) return refused(texts.grantsNothing)
  device = opened
  const { credential } = opened.client
  store(credential, opening)
  /** Continues with another key, unless somebody signed out meanwhile. */
  const replaceCredential = (next: string) => {
    if (device !== opened) return
    storeReplacement(credential, next)
    open(next)
  }
  const actions = { signOut, replaceCredential }
  show(...shell(opened, actions))
  // Nobody has seen it yet.
  if (opening.replaced) showKeyOf(opened)
  // The key was shown on the screen: it must not work for anyone with a photograph.
  if (opening.isSetup)
    await replaceKey(opened, actions, false, () => announce(texts.replacingKey)).catch(error =>
      announce(messageOf(error)),
    )
  if (!opening.isConfirming) return
  const trial = await trialHere(opened)
  if (device !== opened) return
  if (!trial) {
    if (opening.store) announce(texts.noTrial)
    return
  }
  const goal = opening.joining === undefined ? undefined : joining(opening.joining)
  const kept = opening.isMoved ? texts.trialKeptThere : texts.trialKept
  const keep = async () => announce(await runTrial(opened, { ...trial, goal }).then(() => kept, messageOf))
  if (opening.store) return keep()
  // The link had no credential, so anybody may have made it. The user has not signed in to keep the change either.
  ask({ title: texts.keepTitle, content: [h('p', {}, texts.keepHelp)], action: texts.keepIt, go: keep })
}

function start(): void {
  const link = takeLink()
  if (link) openLink(link)
  else goOn()
}

function openLink(link: SignInLink): void {
  const { credential, ...opening } = link
  if (credential === undefined) goOn(opening)
  else open(credential, { ...opening, store: storeInTab })
}

/** Continues with the stored credential. */
function goOn(opening: Opening = {}): void {
  const credential = storedCredential()
  if (credential !== undefined) return void open(credential, opening)
  dropNextKey()
  signIn(opening.isConfirming ? texts.trialSignIn : '', opening)
}

/** Signs in or out as another tab has, after a question if something would be lost. */
function followOthers(): void {
  closeQuestion()
  if (!isStored) return
  if (storedCredential() !== current) closeQuestion = unlessUnsaved(texts.signedInElsewhere, texts.followOther, goOn)
}

/** The sentences on what another page or credential would lose: also a new key that is not copied yet. */
const losses = () => [...(keyDialog() ? [texts.keyShown] : []), ...(device?.losses ?? [])]
addEventListener('hashchange', ({ oldURL }) => {
  const link = takeLink()
  if (!link) return
  const lost = losses()
  // Restores the address before the shell reacts to it, so that unsaved entries stay in view.
  if (lost.length > 0) history.replaceState(null, '', oldURL)
  unlessUnsaved(texts.openLinkTitle, texts.useIt, () => openLink(link), lost)
})
addEventListener('beforeunload', event => {
  if (losses().length > 0) event.preventDefault()
})
onStoredElsewhere(followOthers)
// After “Cancel”, as soon as the entries are saved or discarded.
whileShown(document.body, FOLLOW_MS, () => {
  if (device?.losses.length === 0) followOthers()
})
start()
