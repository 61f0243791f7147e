import { type Client, messageOf } from '../client.ts'
import { ask } from '../dialog.ts'
import { button, foreign, h, problemLine, say } from '../dom.ts'
import * as texts from '../texts.ts'
import type { View } from '../view.ts'
import { keepFresh } from '../while-shown.ts'

interface Issuer {
  readonly name: string
  readonly algorithm: string
  readonly roles: readonly string[]
  readonly source: keyof typeof texts.issuerSources
}

/** Lists the issuers in force, with a button to remove each; hidden while there are none. */
export function issuersCard(client: Client): View {
  const unread = problemLine()
  const problem = problemLine()
  const list = h('ul', { class: 'networks' })
  const card = h(
    'section',
    { class: 'card', hidden: true },
    h('h3', {}, texts.issuers),
    h('p', { class: 'help' }, texts.issuersHelp),
    unread,
    problem,
    list,
  )
  let listed = ''
  const refresh = async () => {
    try {
      const { issuers } = await client.read<{ issuers: readonly Issuer[] }>('/issuers')
      say(unread, '')
      card.hidden = issuers.length === 0
      const now = JSON.stringify(issuers)
      // A new row would take neither the focus of the old one, nor a press that has begun.
      if (now === listed) return
      listed = now
      list.replaceChildren(...issuers.map(row))
    } catch (error) {
      card.hidden = false
      say(unread, messageOf(error))
    }
  }
  const remove = async (name: string) => {
    const failure = await client.send('DELETE', `/issuers/${name}`).then(() => '', messageOf)
    say(problem, failure)
    await refresh()
  }
  const row = ({ name, algorithm, roles, source }: Issuer) => {
    const confirm = () =>
      ask({
        title: texts.removeTitle(name),
        content: [h('p', {}, texts.removeIssuerWarning)],
        action: texts.remove,
        isDangerous: true,
        go: () => remove(name),
      })
    const made = button(texts.remove, confirm)
    made.setAttribute('aria-label', `${texts.remove}: ${name}`)
    const facts = [algorithm, roles.join(', '), texts.issuerSources[source]].join(' · ')
    return h('li', {}, h('div', {}, foreign(name), h('p', { class: 'help' }, facts)), made)
  }
  return { element: card, shown: () => keepFresh(card, refresh) }
}
