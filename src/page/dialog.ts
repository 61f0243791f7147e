import { button, type Child, h, newId, present } from './dom.ts'
import { typable } from './name.ts'
import { protectAll } from './steady.ts'
import * as texts from './texts.ts'

/**
 * Opens a modal dialog. The browser keeps the focus inside, and restores it afterwards.
 * @param isClosable Whether Escape closes it, or the back gesture of Android.
 * @returns a function that closes it.
 */
export function openDialog(title: string, content: readonly Child[], isClosable = true): () => void {
  const heading = h('h2', { id: newId(), tabindex: -1 }, title)
  const closedby = isClosable ? undefined : 'none'
  const dialog = h('dialog', { 'aria-labelledby': heading.id, closedby }, heading, ...present(content))
  // For browsers that do not know `closedby`.
  if (!isClosable) {
    dialog.addEventListener('cancel', event => event.preventDefault())
    // On the second Escape, browsers close a dialog without a `cancel` event that can be prevented.
    dialog.addEventListener('keydown', event => {
      if (event.key === 'Escape') event.preventDefault()
    })
  }
  dialog.addEventListener('close', () => {
    dialog.remove()
    protectAll()
  })
  document.body.append(dialog)
  dialog.showModal()
  protectAll()
  return () => dialog.close()
}

export interface Question {
  readonly title: string
  readonly content: readonly Child[]
  /** The label of the confirming button. Without it, the dialog only informs. */
  readonly action?: string
  readonly isDangerous?: boolean
  /** Text that must be typed to confirm. */
  readonly typed?: string
  /** Reports whether the entries in the content can be sent. */
  readonly isValid?: () => boolean
  readonly go: () => void
}

/** Opens a dialog that asks for confirmation, or for entries, before an action. Returns a function that closes it. */
export function ask(question: Question): () => void {
  const { title, content, action, isDangerous = false, typed, isValid = () => true, go } = question
  const input = h('input', { type: 'text', autofocus: true, autocomplete: 'off', spellcheck: 'false', id: newId() })
  const confirm = h('button', { class: isDangerous ? 'danger' : 'primary', hidden: action === undefined }, action)
  const isReady = () => isValid() && (typed === undefined || typable(input.value) === typable(typed))
  const validate = () => {
    confirm.disabled = !isReady()
  }
  validate()
  const form = h(
    'form',
    {
      novalidate: true,
      input: validate,
      submit: event => {
        event.preventDefault()
        if (!isReady()) return
        close()
        go()
      },
    },
    ...content,
    typed !== undefined && h('label', { for: input.id }, texts.typeName(typable(typed))),
    typed !== undefined && input,
    h(
      'div',
      { class: 'actions' },
      button(action === undefined ? texts.close : texts.cancel, () => close()),
      confirm,
    ),
  )
  const close = openDialog(title, [form])
  return close
}

/** As `ask`, about a subject that others may replace while the dialog is open: then it asks again, about the other one. */
export function askAbout<T>(subject: () => T, questionOn: (subject: T) => Question): void {
  const asked = subject()
  const question = questionOn(asked)
  ask({ ...question, go: () => (subject() === asked ? question.go() : askAbout(subject, questionOn)) })
}
