import { button, h, newId } from '../dom.ts'
import * as texts from '../texts.ts'
import { announce } from '../toast.ts'

/** Creates a read-only text with a button that copies it. */
export function secret(label: string, text: string): HTMLElement {
  const input = h('input', { type: 'text', readonly: true, id: newId(), spellcheck: 'false' })
  input.value = text
  const copy = async () => {
    input.select()
    // Without TLS, browsers offer no clipboard, but still support the older command.
    const isCopied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    )
    announce(isCopied || document.execCommand('copy') ? texts.copied : texts.notCopied)
  }
  const made = button(texts.copy, copy)
  made.setAttribute('aria-label', `${texts.copy}: ${label}`)
  return h('div', { class: 'field' }, h('label', { for: input.id }, label), h('div', { class: 'row' }, input, made))
}
