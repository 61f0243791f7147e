import type { Outcome } from '../../update/state.ts'
import type { Device } from '../device.ts'
import { button, foreign, h } from '../dom.ts'
import { device as kept, NAME } from '../storage.ts'
import * as texts from '../texts.ts'
import { newsOf, wasAskedFor } from './state.ts'

const READ = `${NAME} read`

/** Creates the banner that reports a rollback to the old version, on every view, until it is dismissed. */
export function fallbackBanner(device: Device): HTMLElement {
  const banner = h('div', { class: 'banner fallback', role: 'alert', hidden: true })
  let shown = ''
  device.update.follow(update => {
    const last = newsOf(update)
    const id = last?.outcome === 'rolled back' && !wasAskedFor(last) ? `${last.version} ${last.at}` : ''
    if (id === shown) return
    shown = id
    banner.hidden = id === '' || kept.getItem(READ) === id
    if (!last || banner.hidden) return
    const read = () => {
      kept.setItem(READ, id)
      banner.hidden = true
    }
    banner.replaceChildren(outcomeText(last), button(texts.readIt, read))
  })
  return banner
}

export function outcomeText(last: Outcome): HTMLElement {
  const { version, outcome, reason } = last
  if (wasAskedFor(last)) return h('p', {}, texts.wentBack(version))
  return h('p', {}, texts.outcomes[outcome](version), ' ', reason !== undefined && foreign(texts.reason(reason)))
}
