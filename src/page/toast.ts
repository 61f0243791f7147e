import { h } from './dom.ts'

const SHOWN_MS = 6_000

const region = h('div', { class: 'toast', role: 'status' })
let timer = 0

/** Shows a message for a few seconds, and announces it to screen readers. */
export function announce(text: string): void {
  // Goes into an open modal dialog, which covers everything else and makes it inert.
  const place = document.querySelector('dialog[open]') ?? document.body
  if (region.parentElement !== place) place.append(region)
  clearTimeout(timer)
  region.textContent = text
  timer = setTimeout(() => region.replaceChildren(), SHOWN_MS)
}
