import { button, h } from './dom.ts'
import * as texts from './texts.ts'

/**
 * Creates the offer to reload a page without a connection; empty without TLS. If the device has a new certificate, all requests
 * fail without a reason that the page could see, and only a reload makes the browser ask about it.
 * @param fragment Of the link that is being opened: it was removed from the address, and the reload needs it again.
 */
export function reloadOffer(fragment = ''): readonly HTMLElement[] {
  if (location.protocol !== 'https:') return []
  const reload = () => {
    // Without the event that opens a link in a page that stays.
    if (fragment !== '') history.replaceState(null, '', fragment)
    location.reload()
  }
  return [h('p', {}, texts.newCertificate), button(texts.reload, reload)]
}
