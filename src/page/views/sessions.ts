import { messageOf, Refusal } from '../client.ts'
import type { Device, Session } from '../device.ts'
import { ask } from '../dialog.ts'
import { button, foreign, h } from '../dom.ts'
import { texts } from '../texts.ts'
import { durationText } from '../time.ts'
import { announce } from '../toast.ts'
import type { View } from '../view.ts'
import { whileShown } from '../while-shown.ts'

/** Milliseconds between two looks at the clock. */
const CLOCK_MS = 30_000

/** The moderator's view: who waits, and who mirrors. */
export function sessionsView(device: Device): View {
  const waiting = h('ul', { class: 'sessions' })
  const mirroring = h('ul', { class: 'sessions' })
  const nobodyWaits = h('p', { class: 'nobody' }, texts.nobodyWaits)
  const nobodyMirrors = h('p', { class: 'nobody' }, texts.nobodyMirrors)
  const items = new Map<string, { readonly element: HTMLElement; readonly update: (session: Session) => void }>()
  let asked: ReadonlySet<string> | undefined

  // Rows that stay are not rebuilt: a finger on its way to a button must find it there.
  const show = (sessions: readonly Session[]) => {
    const here = new Set(sessions.map(({ id }) => id))
    for (const [id, { element }] of items) {
      if (here.has(id)) continue
      element.remove()
      items.delete(id)
    }
    for (const session of sessions) {
      const item = items.get(session.id) ?? sessionItem(device)
      items.set(session.id, item)
      item.update(session)
      const list = session.state === 'pending' ? waiting : mirroring
      if (item.element.parentElement !== list) list.append(item.element)
    }
    nobodyWaits.hidden = waiting.childElementCount > 0
    nobodyMirrors.hidden = mirroring.childElementCount > 0
    const pending = sessions.filter(({ state }) => state === 'pending')
    const added = pending.filter(({ id }) => asked && !asked.has(id))
    if (added.length > 0) announce(added.map(session => texts.asks(nameOf(session))).join(' '))
    asked = new Set(pending.map(({ id }) => id))
  }
  device.sessions.follow(show)
  const element = h(
    'div',
    { class: 'columns' },
    h('h2', {}, texts.sessions),
    h('section', { class: 'card' }, h('h3', {}, texts.waiting), waiting, nobodyWaits),
    h('section', { class: 'card' }, h('h3', {}, texts.mirroring), mirroring, nobodyMirrors),
  )
  return { element, shown: () => whileShown(element, CLOCK_MS, () => show(device.sessions.value)) }
}

function sessionItem(device: Device) {
  const name = h('h4', {})
  const facts = h('p', { class: 'help' })
  const problem = h('p', { class: 'error', role: 'alert', hidden: true })
  const actions = h('div', { class: 'decide' })
  const element = h('li', {}, h('div', { class: 'who' }, name, facts), actions, problem)
  let shown = ''

  const update = (session: Session) => {
    name.replaceChildren(foreign(nameOf(session)))
    const { protocol, model, address, since, state } = session
    const seconds = (Date.now() - Date.parse(since)) / 1000
    const known = [texts.sessionStates[state], protocol, model, address, durationText(seconds)]
    facts.replaceChildren(...known.filter(text => text !== '').map(text => foreign(text)))
    element.className = state
    if (shown === state || !device.grants.decidesSessions) return
    shown = state
    actions.replaceChildren(...buttonsFor(session))
  }
  const buttonsFor = (session: Session): readonly HTMLElement[] => {
    const end = (text: string, done: (name: string) => string) =>
      decision(text, session, 'danger', () => device.client.send('DELETE', `/sessions/${session.id}`), done)
    if (session.state !== 'pending') return [end(texts.end, texts.ended)]
    return [
      end(texts.deny, texts.denied),
      decision(texts.allow, session, 'primary', () => admit(device, session), texts.allowed),
    ]
  }
  const decision = (
    text: string,
    session: Session,
    kind: string,
    act: () => Promise<unknown>,
    done: (name: string) => string,
  ): HTMLElement => {
    const decide = async () => {
      problem.hidden = true
      actions.inert = true
      try {
        if ((await act()) !== undefined) announce(done(nameOf(session)))
      } catch (error) {
        problem.textContent = messageOf(error)
        problem.hidden = false
      } finally {
        actions.inert = false
      }
    }
    const made = button(text, decide, kind)
    made.setAttribute('aria-label', `${text}: ${nameOf(session)}`)
    return made
  }
  return { element, update }
}

/** Asks first where that would end another session; undefined if it did. */
async function admit({ client }: Device, { id }: Session): Promise<Response | undefined> {
  const path = `/sessions/${id}/admit`
  try {
    return await client.send('POST', `${path}?replace=false`)
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 409) throw error
    const go = () => client.send('POST', path).catch(error => announce(messageOf(error)))
    ask({ title: texts.replaceTitle, content: [h('p', {}, foreign(error.message))], action: texts.replace, go })
    return undefined
  }
}

function nameOf({ name }: Session): string {
  return name === '' ? texts.unnamed : name
}
