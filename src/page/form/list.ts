import { button, h } from '../dom.ts'
import { type Json, step } from '../json.ts'
import type { Schema } from '../schema.ts'
import { moving } from '../steady.ts'
import * as texts from '../texts.ts'
import { type Control, type ControlOptions, controlFor } from './control.ts'
import { ErrorSlot } from './error-slot.ts'

interface Row {
  readonly element: HTMLElement
  readonly control: Control
  readonly slot: ErrorSlot
  readonly remove: HTMLElement
}

/** The initial value of a new item. */
const BLANK: Readonly<Record<string, Json>> = { boolean: false, integer: 0, number: 0 }

/** A control for an ordered list of texts, numbers or switches. */
export function list({ name, label, schema }: ControlOptions): Control {
  const items: Schema = schema.items ?? {}
  const rows = h('ol', { class: 'list' })
  let shown: Row[] = []
  const nameAfter = (button: HTMLElement, of: string) =>
    button.setAttribute('aria-label', `${button.textContent}: ${of}`)
  const add = button(texts.add, () => {
    const row = rowOf(items.enum?.[0] ?? BLANK[items.type ?? ''] ?? '')
    change([...shown, row], row.slot)
  })
  nameAfter(add, label)
  const element = h('div', { role: 'group', 'aria-label': label }, rows, add)

  const render = () => {
    rows.replaceChildren(...shown.map(row => row.element))
    shown.forEach(({ control, remove }, at) => {
      const item = texts.item(label, at + 1)
      for (const input of control.inputs) input.setAttribute('aria-label', item)
      nameAfter(remove, item)
    })
    rows.hidden = shown.length === 0
    add.disabled = shown.length >= (schema.maxItems ?? Number.POSITIVE_INFINITY)
  }
  const change = (next: Row[], focused: Pick<HTMLElement, 'focus'>) =>
    moving(() => {
      shown = next
      render()
      element.dispatchEvent(new Event('input', { bubbles: true }))
      focused.focus()
    })
  const rowOf = (value: Json): Row => {
    const control = controlFor({ name, label, schema: items })
    control.set(value)
    const slot = new ErrorSlot(control.inputs)
    const others = () => shown.filter(other => other !== row)
    const remove = button(texts.remove, () => change(others(), add), 'quiet')
    const line = h('div', { class: 'row' }, control.element, remove)
    const row = { control, slot, remove, element: h('li', {}, line, slot.element) }
    return row
  }
  return {
    element,
    inputs: [add],
    isGroup: true,
    get: () => shown.map(({ control }) => control.get()),
    set: value => {
      shown = (Array.isArray(value) ? value : []).map(rowOf)
      render()
    },
    invalid: () =>
      shown.flatMap(({ control }, at) =>
        (control.invalid?.() ?? []).map(error => ({ ...error, pointer: step(at) + error.pointer })),
      ),
    slots: () => shown.map(({ slot }, at) => [step(at), slot]),
  }
}
