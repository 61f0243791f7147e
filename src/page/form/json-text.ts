import { h, newId } from '../dom.ts'
import type { Json } from '../json.ts'
import * as texts from '../texts.ts'
import type { Control } from './control.ts'

/** A control for any value, as JSON text, for values that no other control supports. */
export function jsonText(): Control {
  const input = h('textarea', { id: newId(), rows: 4, spellcheck: 'false' })
  const parse = (): Json | undefined => {
    try {
      return JSON.parse(input.value) as Json
    } catch {
      return undefined
    }
  }
  return {
    element: input,
    inputs: [input],
    get: () => parse() ?? null,
    set: value => {
      input.value = JSON.stringify(value, null, 2)
    },
    invalid: () => (parse() === undefined ? [{ pointer: '', detail: texts.json }] : []),
  }
}
