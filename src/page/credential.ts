import { device, NAME, tab } from './storage.ts'

/** An API key that this tab has chosen, until it knows that the device has taken it. */
const NEXT = `${NAME} next`

/** The contents of a link's fragment, which no browser sends to a server. */
export interface SignInLink {
  readonly credential: string
  /** The link is of a change that waits for its confirmation. */
  readonly isConfirming: boolean
  /** The change is kept only if the device comes into this Wi-Fi network. */
  readonly joining: string | undefined
  /** The credential is a short-lived token in place of the API key. */
  readonly isMoved: boolean
  /** The link was on the screen of a new device, for everybody to see. */
  readonly isSetup: boolean
}

/** Takes the credential out of the address, so that the address can be shown and shared. */
export function takeLink(): SignInLink | undefined {
  const parameters = new URLSearchParams(location.hash.slice(1))
  const credential = parameters.get('key')?.trim()
  if (!credential) return undefined
  history.replaceState(null, '', location.pathname + location.search)
  return {
    credential,
    isConfirming: parameters.has('confirm'),
    joining: parameters.get('joining') ?? undefined,
    isMoved: parameters.has('moved'),
    isSetup: parameters.has('setup'),
  }
}

/** A link that signs in whoever opens it. */
export function linkFor(credential: string, base = location.href, more = ''): string {
  const url = new URL('.', base)
  return `${url.origin}${url.pathname}#key=${encodeURIComponent(credential)}${more}`
}

export function storedCredential(): string | undefined {
  return tab.getItem(NAME) ?? device.getItem(NAME) ?? undefined
}

export function isKept(): boolean {
  return device.getItem(NAME) !== null
}

export function storeCredential(credential: string, isKept: boolean): void {
  const [place, other] = isKept ? [device, tab] : [tab, device]
  // First, so that other tabs do not take it for the end of the session.
  place.setItem(NAME, credential)
  other.removeItem(NAME)
}

/** Forgets a refused credential of this tab. The device's stays: another tab may be replacing it at this moment. */
export function dropCredential(credential: string): void {
  if (tab.getItem(NAME) === credential) tab.removeItem(NAME)
}

export function forgetCredential(): void {
  tab.removeItem(NAME)
  device.removeItem(NAME)
}

/** Keeps a key before the device is asked to take it: whatever becomes of the answer, or of the page, somebody has the key. */
export function keepNextKey(key: string): void {
  tab.setItem(NEXT, key)
}

/** The key that was kept, once. */
export function takeNextKey(): string | undefined {
  const key = tab.getItem(NEXT) ?? undefined
  tab.removeItem(NEXT)
  return key
}

/** Calls it when another tab has kept another credential, or has signed out. */
export function onStoredElsewhere(changed: () => void): void {
  addEventListener('storage', event => {
    if (event.storageArea === device && event.key === NAME) changed()
  })
}
