import { button, foreign, h, newId } from '../dom.ts'
import { isEqual, isObject, type Json, type JsonObject, step } from '../json.ts'
import { helpOf, labelOf, valueText } from '../labels.ts'
import * as texts from '../texts.ts'
import { controlFor } from './control.ts'
import { ErrorSlot } from './error-slot.ts'
import { type Field, type FieldOptions, nameOf } from './field.ts'

/** A value that can be changed: its control, its help text and its errors. */
export function entry({ path, label, schema, value, choices, system }: FieldOptions): Field {
  const name = nameOf(path)
  const pointer = path.map(step).join('')
  const control = controlFor({ name, label: labelOf(name), schema })
  const help = h('p', { class: 'help', id: newId() }, helpOf(path, schema))
  const slot = new ErrorSlot(control.inputs, help.id)
  const note = h('p', { class: 'note', role: 'status' })
  const title = control.isGroup ? h('span', { class: 'label' }, label) : h('label', {}, label)
  const element = h('div', { class: `field ${schema.type}` }, title, control.element, help, note, slot.element)
  let base = value
  let isChanged = false

  const aim = () => {
    const target = control.inputs.find(input => !input.hidden)
    if (target && !control.isGroup) title.setAttribute('for', target.id)
  }
  const show = (value: Json) => {
    control.set(value)
    isChanged = false
    note.replaceChildren()
    aim()
  }
  element.addEventListener('input', () => {
    isChanged = !isEqual(control.get(), base)
    if (!isChanged) note.replaceChildren()
    slot.show('')
    aim()
  })
  const isProposed = (schema['x-only-with'] ?? schema['x-propose-with']) !== undefined
  choices.follow(all => {
    if (!isProposed) control.suggest?.(choicesAt(all, path))
    aim()
  })
  const meaning = schema['x-empty-means']
  if (meaning !== undefined) system.follow(all => control.explainEmpty?.(String(all[meaning] ?? '')))
  show(value)

  return {
    element,
    patch: () => (isChanged ? control.get() : undefined),
    update: next => {
      if (isEqual(next, base)) return
      base = next
      if (!isChanged || isEqual(control.get(), next)) {
        show(next)
        flash(element)
      } else
        note.replaceChildren(
          foreign(texts.changedElsewhere(valueText(name, next))),
          button(
            texts.useIt,
            () => {
              show(next)
              element.dispatchEvent(new Event('input', { bubbles: true }))
              slot.focus()
            },
            'quiet',
          ),
        )
    },
    propose: () => {
      const proposals = choicesAt(choices.value, path)
      const [first] = proposals
      const value = control.get()
      if (first === undefined || (value !== '' && !isEqual(value, []))) return
      control.set(value === '' ? first : proposals)
      isChanged = true
    },
    reset: () => {
      if (isChanged) show(base)
      slot.show('')
    },
    invalid: () =>
      isChanged ? (control.invalid?.() ?? []).map(error => ({ ...error, pointer: pointer + error.pointer })) : [],
    slots: () => [[pointer, slot], ...(control.slots?.() ?? []).map(([part, slot]) => [pointer + part, slot] as const)],
  }
}

/** Draws attention to a value that was changed elsewhere. */
function flash(element: HTMLElement): void {
  element.classList.remove('changed')
  requestAnimationFrame(() => element.classList.add('changed'))
}

function choicesAt(choices: JsonObject, path: readonly string[]): readonly string[] {
  const found = path.reduce<Json | undefined>((value, name) => (isObject(value) ? value[name] : undefined), choices)
  return Array.isArray(found) ? found.map(String) : []
}
