import { type Client, messageOf } from '../client.ts'
import { ask } from '../dialog.ts'
import { button, foreign, h, problemLine, say } from '../dom.ts'
import * as texts from '../texts.ts'

interface Issuer {
  readonly name: string
  readonly algorithm: string
  readonly roles: readonly string[]
  readonly source: keyof typeof texts.issuerSources
}

/** Lists the issuers in force, with a button to remove each; hidden while there are none. */
export function issuersCard(client: Client): HTMLElement {
  const problem = problemLine()
  const list = h('ul', { class: 'networks' })
  const card = h(
    'section',
    { class: 'card', hidden: true },
    h('h3', {}, texts.issuers),
    h('p', { class: 'help' }, texts.issuersHelp),
    problem,
    list,
  )
  const fill = async () => {
    const { issuers } = await client.read<{ issuers: readonly Issuer[] }>('/issuers')
    list.replaceChildren(...issuers.map(row))
    card.hidden = issuers.length === 0
  }
  const remove = async (name: string) => {
    try {
      await client.send('DELETE', `/issuers/${name}`)
      await fill()
      say(problem, '')
    } catch (error) {
      say(problem, messageOf(error))
    }
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
  fill().catch(error => {
    card.hidden = false
    say(problem, messageOf(error))
  })
  return card
}
