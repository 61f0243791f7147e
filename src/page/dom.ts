/** Creates elements in one expression. Text stays text: no code of the page parses HTML. */

export type Child = Node | string | false | undefined
type Attributes = Readonly<Record<string, string | number | boolean | undefined | ((event: Event) => void)>>

/**
 * Creates an element.
 * @param attributes By name. A function is a listener for the event of that name; `true` sets an empty attribute; `false` and
 * `undefined` set none.
 */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value)
    else if (value !== false && value !== undefined) element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...present(children))
  return element
}

export function present(children: readonly Child[]): readonly (Node | string)[] {
  return children.filter(child => child !== false && child !== undefined)
}

/** Wraps text from elsewhere, such as names, so that its writing direction does not affect the text around it. */
export function foreign(text: string): HTMLElement {
  return h('bdi', { class: 'foreign' }, text)
}

export function button(text: string, click: () => void, kind = ''): HTMLButtonElement {
  return h('button', { type: 'button', class: kind, click }, text)
}

/** Creates a checkbox, and the row with its label. @param more Elements after the label. */
export function checkbox(
  text: string,
  ...more: readonly Child[]
): { readonly input: HTMLInputElement; readonly row: HTMLElement } {
  const input = h('input', { type: 'checkbox', id: newId() })
  return { input, row: h('div', { class: 'check' }, input, h('label', { for: input.id }, text), ...more) }
}

/** Shows a text in an element; hides the element if the text is empty. */
export function say(element: HTMLElement, text: string): void {
  // A screen reader would announce the same text again.
  if (element.textContent !== text) element.textContent = text
  element.hidden = text === ''
}

/** Creates the line that shows an error. */
export function problemLine(): HTMLElement {
  return h('p', { class: 'error', role: 'alert', hidden: true })
}

let ids = 0

/** Returns an unused element id. */
export function newId(): string {
  return `i${++ids}`
}
