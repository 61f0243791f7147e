import { h } from './dom.ts'

/** Milliseconds that the browser has to read the content. */
const KEPT_MS = 60_000

/** Lets the browser save a file. */
export function download(content: Blob, name: string): void {
  const href = URL.createObjectURL(content)
  h('a', { href, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(href), KEPT_MS)
}
