import { h, newId } from '../dom.ts'
import * as texts from '../texts.ts'
import type { Control } from './control.ts'

/** A control for a text. If the device suggests values, the user chooses one of them, or enters another. */
export function withSuggestions({ label }: { readonly label: string }): Control {
  const other = h('option', { value: '' }, texts.other)
  const select = h('select', { id: newId(), hidden: true })
  const input = h('input', { type: 'text', id: newId(), dir: 'auto', autocomplete: 'off', spellcheck: 'false' })
  let known: readonly string[] = []

  const show = () => {
    const value = input.value
    select.hidden = known.length === 0
    input.hidden = known.includes(value)
    select.value = known.includes(value) ? value : ''
    if (select.hidden) input.removeAttribute('aria-label')
    else input.setAttribute('aria-label', label)
  }
  select.addEventListener('input', () => {
    input.hidden = select.value !== ''
    if (select.value !== '') input.value = select.value
    else input.select()
  })
  return {
    element: h('div', { class: 'suggestions' }, select, input),
    inputs: [select, input],
    get: () => input.value,
    set: value => {
      input.value = String(value ?? '')
      show()
    },
    explainEmpty: meaning => {
      input.placeholder = meaning
    },
    suggest: choices => {
      known = choices
      select.replaceChildren(...grouped(choices), other)
      show()
    },
  }
}

/** Groups choices by the part before a slash, such as time zones by region. */
function grouped(choices: readonly string[]): readonly HTMLElement[] {
  const groups = new Map<string, HTMLElement[]>()
  for (const choice of choices) {
    const slash = choice.indexOf('/')
    const group = slash < 0 ? '' : choice.slice(0, slash)
    const option = h('option', { value: choice }, group === '' ? choice : choice.slice(slash + 1).replaceAll('_', ' '))
    groups.set(group, [...(groups.get(group) ?? []), option])
  }
  const single = groups.get('') ?? []
  if (single.length === choices.length) return single
  groups.delete('')
  if (single.length > 0) groups.set(texts.otherRegions, single)
  return Array.from(groups, ([label, options]) => h('optgroup', { label }, ...options))
}
