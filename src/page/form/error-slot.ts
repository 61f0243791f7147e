import { h, newId } from '../dom.ts'

/** The place for a control's errors: below the control, and read with it by screen readers. */
export class ErrorSlot {
  readonly element = h('p', { class: 'error', id: newId(), hidden: true })
  readonly #inputs: readonly HTMLElement[]

  /** @param description The id of another element that describes the control. */
  constructor(inputs: readonly HTMLElement[], description = '') {
    this.#inputs = inputs
    for (const input of inputs) input.setAttribute('aria-describedby', `${description} ${this.element.id}`.trim())
  }

  show(text: string): void {
    this.element.textContent = text
    this.element.hidden = text === ''
    for (const input of this.#inputs)
      if (text === '') input.removeAttribute('aria-invalid')
      else input.setAttribute('aria-invalid', 'true')
  }

  focus(): void {
    this.#inputs.find(input => !input.hidden)?.focus()
  }
}
