import { type FieldError, jsonOf, messageOf, Refusal, Unreachable } from '../client.ts'
import { type Device, idOf } from '../device.ts'
import { button, h, newId } from '../dom.ts'
import { isEqual, type JsonObject } from '../json.ts'
import type { Schema } from '../schema.ts'
import { texts } from '../texts.ts'
import { announce } from '../toast.ts'
import { addressAfter } from '../trial/address-after.ts'
import { onTrial, prepareMove, runTrial } from '../trial/trial.ts'
import type { Field } from './field.ts'

/** Milliseconds for the answer to a change that moves the device to another address. */
const MOVE_ANSWER_MS = 4_000

export interface CardOptions {
  readonly device: Device
  readonly title: string
  readonly help: string | undefined
  readonly field: Field
  /** The schemas of the settings in it, by name. */
  readonly settings: Readonly<Record<string, Schema>>
  /** The user's entries, as a patch of the whole configuration. */
  readonly patch: () => JsonObject | undefined
}

/** Settings that are saved together. */
export function card(options: CardOptions): HTMLFormElement {
  const { device, title, help, field, patch } = options
  const heading = h('h3', { id: newId(), tabindex: -1 }, title)
  const problem = h('p', { class: 'error', role: 'alert', hidden: true })
  const save = h('button', { class: 'primary' }, texts.save)
  // A list of all buttons, as screen readers have one, must tell them from those of the other cards.
  const name = (button: HTMLElement, text: string) => {
    button.textContent = text
    button.setAttribute('aria-label', `${text}: ${title}`)
  }
  name(save, texts.save)
  const discard = button(texts.discard, () => {
    field.reset()
    say('')
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
    else device.unsaved.add(actions)
  }
  const say = (text: string) => {
    problem.textContent = text
    problem.hidden = text === ''
  }
  const submit = async () => {
    const body = patch()
    if (!body || save.disabled) return
    say('')
    announce('')
    for (const [, slot] of field.slots()) slot.show('')
    const invalid = field.invalid()
    if (invalid.length > 0) return mark(field, invalid, say)
    save.disabled = true
    name(save, texts.saving)
    try {
      announce(await send(options, body))
    } catch (error) {
      const errors = error instanceof Refusal ? error.errors : []
      if (errors.length > 0) mark(field, errors, say)
      else say(messageOf(error))
    } finally {
      save.disabled = false
      name(save, texts.save)
      refresh()
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

/**
 * Sends a patch. A change that can lock its maker out is on trial until the device is reached again.
 * @returns its outcome, to be shown.
 */
async function send({ device, field, settings, patch }: CardOptions, body: JsonObject): Promise<string> {
  const trials = Object.keys(body).map(name => settings[name]?.['x-confirm-within'] ?? 0)
  const trialS = Math.max(0, ...trials)
  const address = addressAfter(body, device.system.value)
  const move = trialS > 0 && address !== undefined ? await prepareMove(device, address) : undefined
  // Of somebody else: should the answer be lost, that one is not taken for ours.
  const other = trialS > 0 ? await onTrial(device.client).catch(() => undefined) : undefined
  const began = performance.now()
  try {
    const path = trialS > 0 ? `/system?confirmWithin=${trialS}` : '/system'
    // The answer is lost with the old address, and the change must be kept from the new one in time.
    const signal = move && AbortSignal.timeout(MOVE_ANSWER_MS)
    const response = await device.client.send('PATCH', path, { body, ...(signal && { signal }) })
    const system = await jsonOf<JsonObject>(response)
    // Keep what the user has entered meanwhile.
    if (isEqual(patch(), body)) field.reset()
    device.adopt(system, idOf(response))
    const givenS = response.headers.get('Confirm-Within')
    if (givenS === null) return texts.saved
    await runTrial(device, { id: idOf(response), seconds: Number(givenS), move })
  } catch (error) {
    if (trialS === 0 || !(error instanceof Unreachable)) throw error
    await runTrial(device, { other, seconds: trialS - (performance.now() - began) / 1000, move })
    if (isEqual(patch(), body)) field.reset()
  }
  return texts.trialKept
}

/** Shows each error at the control that its pointer names, or at the nearest thing around it. */
function mark(field: Field, errors: readonly FieldError[], say: (text: string) => void): void {
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
  say([shown.length > 0 ? texts.refused : '', ...rest].join(' ').trim())
  slots.get(shown[0] ?? '')?.focus()
}
