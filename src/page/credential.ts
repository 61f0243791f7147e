import { device, NAME, tab } from './storage.ts'

/** The item for an API key that this tab generated, after the one that it replaces, until the device is known to have accepted it. */
const NEXT = `${NAME} next`

/** The contents of a link's fragment, which no browser sends to a server. */
export interface SignInLink {
  /** The fragment itself. */
  readonly fragment: string
  /** Undefined if it is to be asked for. */
  readonly credential: string | undefined
  /** The link belongs to a change that still needs confirmation. */
  readonly isConfirming: boolean
  /** The Wi-Fi network that the device must join for the change to be kept. */
  readonly joining: string | undefined
  /** The credential is a short-lived token in place of the API key. */
  readonly isMoved: boolean
  /** The link was shown publicly, on the screen of a new device. */
  readonly isSetup: boolean
}

/** Reads the link, and removes the credential from the address, so that the address can be shown and shared. */
export function takeLink(): SignInLink | undefined {
  const fragment = location.hash
  const parameters = new URLSearchParams(fragment.slice(1))
  const credential = parameters.get('key')?.trim() || undefined
  if (credential === undefined && !parameters.has('confirm')) return undefined
  history.replaceState(null, '', location.pathname + location.search)
  return {
    fragment,
    credential,
    isConfirming: parameters.has('confirm'),
    joining: parameters.get('joining') ?? undefined,
    // Anybody can make a link without a credential: it must not have the device do anything with that of somebody else.
    isMoved: credential !== undefined && parameters.has('moved'),
    isSetup: credential !== undefined && parameters.has('setup'),
  }
}

/** Returns a link that signs in anyone who opens it. */
export function linkFor(credential: string, base = location.href, more = ''): string {
  return linkWith(`key=${encodeURIComponent(credential)}${more}`, base)
}

/** Returns a link to the page with a fragment. */
export function linkWith(fragment: string, base: string): string {
  const url = new URL('.', base)
  return `${url.origin}${url.pathname}#${fragment}`
}

export function storedCredential(): string | undefined {
  return tab.getItem(NAME) ?? device.getItem(NAME) ?? undefined
}

/** Reports whether the stored credential is kept for all tabs. */
export function isKept(): boolean {
  return tab.getItem(NAME) === null && device.getItem(NAME) !== null
}

/** @param refused The credential that the device has just refused: it is not kept any longer. */
export function storeCredential(credential: string, isKept: boolean, refused?: string): void {
  if (isKept) {
    // Store before removing, so that other tabs do not mistake this for signing out.
    device.setItem(NAME, credential)
    tab.removeItem(NAME)
  } else {
    tab.setItem(NAME, credential)
    // Any other one is for the other tabs.
    if (device.getItem(NAME) === refused) device.removeItem(NAME)
  }
}

/** Stores the credential of a link, for this tab only: the one that is kept for all tabs may be a better one. */
export function storeInTab(credential: string): void {
  // A tab with the kept one goes on following the others.
  if (device.getItem(NAME) === credential) tab.removeItem(NAME)
  else tab.setItem(NAME, credential)
}

/** Stores a credential in place of one that is no longer in force, for all tabs if that is kept for them. */
export function storeReplacement(replaced: string, credential: string): void {
  if (device.getItem(NAME) === replaced) storeCredential(credential, true)
  else storeInTab(credential)
  dropNextKey()
}

/** Forgets a refused credential of this tab. The one stored for all tabs stays: another tab may be replacing it right now. */
export function dropCredential(credential: string): void {
  if (tab.getItem(NAME) === credential) tab.removeItem(NAME)
}

/** Forgets the credential of this tab. If the tab has its own, the one that is kept for all tabs stays: it is for the others. */
export function forgetCredential(): void {
  const place = isKept() ? device : tab
  place.removeItem(NAME)
  dropNextKey()
}

/** Stores a new key before it is sent to the device, so that it is not lost with the answer or the page. */
export function keepNextKey(replaced: string, key: string): void {
  tab.setItem(NEXT, `${replaced} ${key}`)
}

/** Returns the key that `keepNextKey` stored in place of this one; for whoever has another one, there is none. */
export function nextKey(replaced: string): string | undefined {
  const [before, key] = tab.getItem(NEXT)?.split(' ') ?? []
  return before === replaced ? key : undefined
}

export function dropNextKey(): void {
  tab.removeItem(NEXT)
}

/** Calls `changed` when another tab stores a credential for all tabs, or signs out. */
export function onStoredElsewhere(changed: () => void): void {
  addEventListener('storage', event => {
    if (event.storageArea === device && event.key === NAME) changed()
  })
}
