import { checkbox, h, newId } from './dom.ts'
import * as texts from './texts.ts'

/**
 * Creates the form that asks for a credential.
 * @param why Why the last credential no longer works; empty if there was none.
 */
export function signInForm(why: string, go: (credential: string, isKept: boolean) => void): HTMLElement {
  const problem = h('p', { class: 'error', role: 'alert', id: newId(), hidden: why === '' }, why)
  const help = h('p', { class: 'help', id: newId() }, texts.signInHelp)
  const input = h('input', {
    type: 'password',
    id: newId(),
    autocomplete: 'current-password',
    autocapitalize: 'off',
    spellcheck: 'false',
    autofocus: true,
    'aria-describedby': `${help.id} ${problem.id}`,
  })
  const show = checkbox(texts.show)
  show.input.addEventListener('input', () => {
    input.type = show.input.checked ? 'text' : 'password'
  })
  const keepHelp = h('p', { class: 'help', id: newId() }, texts.staySignedInHelp)
  const keep = checkbox(texts.staySignedIn, keepHelp)
  keep.input.setAttribute('aria-describedby', keepHelp.id)
  const submit = (event: Event) => {
    event.preventDefault()
    const credential = input.value.trim()
    if (credential !== '') return go(credential, keep.input.checked)
    problem.textContent = texts.credentialMissing
    problem.hidden = false
    input.focus()
  }
  return h(
    'form',
    { class: 'card sign-in', novalidate: true, submit },
    h('h1', {}, texts.signIn),
    help,
    h('div', { class: 'field' }, h('label', { for: input.id }, texts.credential), input),
    show.row,
    keep.row,
    problem,
    h('div', { class: 'actions' }, h('button', { class: 'primary' }, texts.signIn)),
  )
}
