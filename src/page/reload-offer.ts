import { button, h } from './dom.ts'
import * as texts from './texts.ts'

/**
 * Creates the offer to reload a page without a connection; empty without TLS. If the device has a new certificate, all requests
 * fail without a reason that the page could see, and only a reload makes the browser ask about it.
 */
export function reloadOffer(): readonly HTMLElement[] {
  if (location.protocol !== 'https:') return []
  return [h('p', {}, texts.newCertificate), button(texts.reload, () => location.reload())]
}
