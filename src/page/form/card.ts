import { type FieldError, messageOf, Refusal } from '../client.ts'
import type { Device } from '../device.ts'
import { button, h, newId, problemLine, say } from '../dom.ts'
import { isEqual, type JsonObject } from '../json.ts'
import type { Schema } from '../schema.ts'
import * as texts from '../texts.ts'
import { announce } from '../toast.ts'
import { sendPatch } from '../trial/send.ts'
import type { Field } from './field.ts'

export interface CardOptions {
  readonly device: Device
  readonly title: string
  readonly help: string | undefined
  readonly field: Field
  /** The schemas of the card's settings, by name. */
  readonly settings: Readonly<Record<string, Schema>>
  /** Returns the user's entries as a patch of the whole configuration; undefined without any. */
  readonly patch: () => JsonObject | undefined
}

/** Creates a form with settings that are saved together. */
export function card(options: CardOptions): HTMLFormElement {
  const { device, title, help, field, settings, patch } = options
  const heading = h('h3', { id: newId(), tabindex: -1 }, title)
  const problem = problemLine()
  const save = h('button', { class: 'primary' }, texts.save)
  // Screen readers can list all buttons: the title tells them from the buttons of other cards.
  const name = (button: HTMLElement, text: string) => {
    button.textContent = text
    button.setAttribute('aria-label', `${text}: ${title}`)
  }
  name(save, texts.save)
  const discard = button(texts.discard, () => {
    field.reset()
    say(problem, '')
    refresh()
    heading.focus()
  })
  name(discard, texts.discard)
  const actions = h(
    'div',
    { class: 'actions', hidden: true },
    h('span', { class: 'help' }, texts.unsaved),
    discard,
    save,
  )

  const refresh = () => {
    actions.hidden = patch() === undefined
    if (actions.hidden) device.unsaved.delete(actions)
    else device.unsaved.set(actions, texts.unsavedLost)
  }
  const submit = async () => {
    const body = patch()
    if (!body || save.disabled) return
    say(problem, '')
    announce('')
    for (const [, slot] of field.slots()) slot.show('')
    const invalid = field.invalid()
    if (invalid.length > 0) return mark(field, invalid, problem)
    const wasPressed = document.activeElement === save
    save.disabled = true
    name(save, texts.saving)
    try {
      // Keeps entries that the user made meanwhile.
      const taken = () => {
        if (isEqual(patch(), body)) field.reset()
      }
      announce(await sendPatch(device, { settings, body, taken }))
    } catch (error) {
      const errors = error instanceof Refusal ? error.errors : []
      if (errors.length > 0) mark(field, errors, problem)
      else say(problem, messageOf(error))
    } finally {
      save.disabled = false
      name(save, texts.save)
      refresh()
      // A button loses the focus when it is disabled or hidden.
      const isLost = wasPressed && !document.activeElement?.matches('input, select, textarea, dialog[open] *')
      if (isLost) (actions.hidden ? heading : save).focus({ preventScroll: true })
    }
  }
  const form = h(
    'form',
    {
      class: 'card',
      'aria-labelledby': heading.id,
      novalidate: true,
      input: refresh,
      submit: event => {
        event.preventDefault()
        submit()
      },
    },
    heading,
    help !== undefined && h('p', { class: 'help' }, help),
    field.element,
    problem,
    actions,
  )
  device.system.follow(refresh)
  return form
}

/** Shows each error at the control that its pointer names, or at the nearest enclosing one. */
function mark(field: Field, errors: readonly FieldError[], problem: HTMLElement): void {
  const slots = new Map(field.slots())
  const shown: string[] = []
  const rest: string[] = []
  for (const { pointer, detail } of errors) {
    let at = pointer
    while (at !== '' && !slots.has(at)) at = at.slice(0, at.lastIndexOf('/'))
    const slot = slots.get(at)
    slot?.show(detail)
    if (slot) shown.push(at)
    else rest.push(`${pointer.slice(1)}: ${detail}`)
  }
  say(problem, [shown.length > 0 ? texts.refused : '', ...rest].join(' ').trim())
  slots.get(shown[0] ?? '')?.focus()
}
