import { jsonOf, messageOf } from '../client.ts'
import { linkFor } from '../credential.ts'
import type { Device } from '../device.ts'
import { openDialog } from '../dialog.ts'
import { button, h, newId, problemLine, say } from '../dom.ts'
import * as texts from '../texts.ts'
import { momentText } from '../time.ts'
import { qrImage } from './qr-image.ts'
import { secret } from './secret.ts'

const ROLES = {
  moderator: ['moderator:rw'],
  watcher: ['moderator:r'],
  admin: ['admin:rw', 'moderator:rw'],
  viewer: ['admin:r'],
} as const
type RoleName = keyof typeof ROLES
const DEFAULT_EXPIRY = '8h'
const MAX_SUBJECT = 64

interface Made {
  readonly token: string
  readonly expiresAt?: string
}

/** Creates the form that makes tokens. */
export function tokenCard(device: Device): HTMLElement {
  const role = h('select', { id: newId() }, ...options(texts.tokenRoles))
  const expiry = h('select', { id: newId() }, ...options({ ...texts.tokenExpiries, '': texts.tokenForever }))
  expiry.value = DEFAULT_EXPIRY
  const subject = h('input', { type: 'text', id: newId(), maxlength: MAX_SUBJECT, autocomplete: 'off' })
  const subjectHelp = h('p', { class: 'help', id: newId() }, texts.tokenSubjectHelp)
  subject.setAttribute('aria-describedby', subjectHelp.id)
  const problem = problemLine()

  const make = async () => {
    say(problem, '')
    try {
      const name = subject.value.trim()
      const response = await device.client.send('POST', '/tokens', {
        body: {
          roles: ROLES[role.value as RoleName],
          ...(expiry.value !== '' && { expiresIn: expiry.value }),
          ...(name !== '' && { subject: name }),
        },
      })
      showToken(await jsonOf<Made>(response))
    } catch (error) {
      say(problem, messageOf(error))
    }
  }
  const field = (label: string, input: HTMLElement, help?: HTMLElement) =>
    h('div', { class: 'field' }, h('label', { for: input.id }, label), input, help)
  return h(
    'form',
    {
      class: 'card',
      novalidate: true,
      submit: event => {
        event.preventDefault()
        make()
      },
    },
    h('h3', {}, texts.newToken),
    h('p', { class: 'help' }, texts.newTokenHelp),
    field(texts.tokenFor, role),
    field(texts.tokenExpiry, expiry),
    field(texts.tokenSubject, subject, subjectHelp),
    problem,
    h('div', { class: 'actions' }, h('button', { class: 'primary' }, texts.makeToken)),
  )
}

function options(names: Readonly<Record<string, string>>): readonly HTMLElement[] {
  return Object.entries(names).map(([value, text]) => h('option', { value }, text))
}

/** Shows a token once: neither the page nor the device stores it. */
function showToken({ token, expiresAt }: Made): void {
  const link = linkFor(token)
  const close = openDialog(texts.tokenMade, [
    h('p', {}, texts.tokenOnce),
    qrImage(link, texts.qrCode),
    expiresAt !== undefined && h('p', { class: 'help' }, texts.validUntil(momentText(expiresAt))),
    secret(texts.token, token),
    secret(texts.link, link),
    h(
      'div',
      { class: 'actions' },
      button(texts.done, () => close(), 'primary'),
    ),
  ])
}
