import type { Device } from './device.ts'
import { button, h } from './dom.ts'
import { NAME, tab } from './storage.ts'
import * as texts from './texts.ts'

const RELOADED = `${NAME} reloaded`

/** Returns the names of a page's files, which change with their content. */
const filesOf = (html: string) => String(html.match(/page-\w+\.\w+/g))
const OWN = filesOf(document.head.innerHTML)

/**
 * After an update of the device, an open page is still the old version. The page reloads itself, or offers to if a reload
 * would lose something.
 */
export function renewalBanner(device: Device): HTMLElement {
  const reload = () => location.reload()
  const banner = h(
    'div',
    { class: 'banner calm', role: 'status', hidden: true },
    h('p', {}, texts.otherPage),
    button(texts.reload, reload),
  )
  device.returns.follow(async returns => {
    if (returns === 0) return
    const files = filesOf(
      await fetch('.', { cache: 'no-store' })
        .then(response => response.text())
        .catch(() => ''),
    )
    // `null`: a proxy may have answered instead.
    banner.hidden = files === 'null' || files === OWN
    // If the browser stores nothing, a reload would sign out. A reload that brought the old page again is not repeated.
    const isSafe = device.losses.length === 0 && !document.querySelector('dialog') && tab instanceof Storage
    if (banner.hidden || !isSafe || tab.getItem(RELOADED) === files) return
    tab.setItem(RELOADED, files)
    reload()
  })
  return banner
}
