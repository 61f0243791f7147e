import { h } from './dom.ts'

const SHOWN_MS = 6_000

const region = h('div', { class: 'toast', role: 'status' })
let timer = 0

/** Says something for a while, also to a screen reader. */
export function announce(text: string): void {
  // Inside a modal dialog, which covers everything else and makes it inert.
  const place = document.querySelector('dialog[open]') ?? document.body
  if (region.parentElement !== place) place.append(region)
  clearTimeout(timer)
  region.textContent = text
  timer = setTimeout(() => region.replaceChildren(), SHOWN_MS)
}
