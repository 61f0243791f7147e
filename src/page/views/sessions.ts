import { isPassing, isRefusedForNow, messageOf, Refusal } from '../client.ts'
import type { Device, Session } from '../device.ts'
import { ask } from '../dialog.ts'
import { button, foreign, h, problemLine, say } from '../dom.ts'
import { isBlank } from '../name.ts'
import { moving } from '../steady.ts'
import * as texts from '../texts.ts'
import { deviceNow, durationText } from '../time.ts'
import { announce } from '../toast.ts'
import type { View } from '../view.ts'
import { whileShown } from '../while-shown.ts'

/** Milliseconds between updates of the times shown, such as the time left of a waiting session. */
const CLOCK_MS = 1_000
/** Milliseconds for which an ended row stays in place, so that a tap meant for it does not hit the next row. */
const GONE_MS = 2_000
/** Milliseconds to wait for the answer to a decision. The device itself gives up after five seconds. */
const DECISION_MS = 8_000
/** Tolerated difference in milliseconds between the clocks of the device and the browser. */
const LATE_MS = 2_000

/** The moderator's view: the devices that are waiting, and those that are mirroring. */
export function sessionsView(device: Device): View {
  const waiting = h('ul', { class: 'sessions' })
  const mirroring = h('ul', { class: 'sessions' })
  const nobodyWaits = h('p', { class: 'nobody' }, texts.nobodyWaits)
  const nobodyMirrors = h('p', { class: 'nobody' }, texts.nobodyMirrors)
  const items = new Map<string, Item>()
  /** Whether this is the first update: sessions that already wait are not announced. */
  let isFirst = true

  const tidy = () => {
    nobodyWaits.hidden = waiting.childElementCount > 0
    nobodyMirrors.hidden = mirroring.childElementCount > 0
  }
  const fade = (item: Item, outcome = item.outcome()) => {
    item.end(outcome)
    const remove = () => {
      item.element.remove()
      tidy()
    }
    setTimeout(() => moving(remove), GONE_MS)
  }

  // Remaining rows are not rebuilt, and none moves up at once, so that a tap hits the button it was meant for.
  const update = (sessions: readonly Session[]) => {
    for (const [id, item] of items) {
      if (sessions.some(session => session.id === id)) continue
      items.delete(id)
      fade(item)
    }
    const added = sessions.filter(({ id, state }) => state === 'pending' && !items.has(id))
    for (const session of sessions) {
      const list = session.state === 'pending' ? waiting : mirroring
      let item = items.get(session.id)
      if (item?.element.parentElement === waiting && list !== waiting) {
        fade(item, texts.letIn(item.isLetIn()))
        item = undefined
      }
      item ??= sessionItem(device)
      items.set(session.id, item)
      item.update(session)
      if (item.element.parentElement !== list) list.append(item.element)
    }
    tidy()
    if (!isFirst && added.length > 0) announce(added.map(session => texts.asks(nameOf(session))).join(' '))
    isFirst = false
  }
  device.sessions.follow(update)
  const hint = h('p', { class: 'hint', hidden: true }, texts.notModerated)
  const called = h('p', { class: 'help', hidden: true })
  const explain = () => {
    hint.hidden = device.isOpen !== true
    const name = device.nameOnPhones
    called.hidden = name === undefined
    called.replaceChildren(texts.phonesSee, ' ', foreign(name ?? ''), '.')
  }
  device.system.follow(explain)
  const element = h(
    'div',
    { class: 'columns' },
    h('h2', {}, texts.sessions),
    hint,
    h('section', { class: 'card' }, h('h3', { tabindex: -1 }, texts.waiting), waiting, nobodyWaits),
    h('section', { class: 'card' }, h('h3', { tabindex: -1 }, texts.mirroring), mirroring, nobodyMirrors, called),
  )
  return { element, shown: () => whileShown(element, CLOCK_MS, () => moving(() => update(device.sessions.value))) }
}

/** The row of a session. */
interface Item {
  readonly element: HTMLElement
  readonly update: (session: Session) => void
  /** Reports whether the session was let in on this page. */
  readonly isLetIn: () => boolean
  /** Returns a text on how the session ended. */
  readonly outcome: () => string
  /** Shows the session as over, and disables its buttons. */
  readonly end: (outcome: string) => void
}

/** The texts of a button: its label `text`, `doing` while the answer is pending, and `done` to announce afterwards. */
type Says = typeof texts.allow | typeof texts.deny | typeof texts.end

function sessionItem(device: Device): Item {
  const name = h('h4', {})
  const facts = h('p', { class: 'help' })
  const problem = problemLine()
  const actions = h('div', { class: 'decide' })
  const element = h('li', {}, h('div', { class: 'who' }, name, facts), actions, problem)
  /** The decision made on this page, from the press until the device refuses it. A lost answer is no refusal. */
  let decided: Says | undefined
  let last: Session | undefined

  const update = (session: Session) => {
    const isMoved = last?.state !== session.state
    last = session
    name.replaceChildren(foreign(nameOf(session)))
    const { protocol, model, address, since, deadline, state } = session
    const leftMs = deadline === undefined ? undefined : Date.parse(deadline) - deviceNow()
    const time =
      leftMs === undefined ? durationText((deviceNow() - Date.parse(since)) / 1000) : texts.leftOf(state, leftMs)
    const known = [texts.sessionStates[state], texts.protocolOf(protocol), texts.modelOf(model), address, time]
    facts.replaceChildren(...known.filter(text => text !== '').map(text => foreign(text)))
    element.className = state
    if (isMoved && device.grants.decidesSessions) actions.replaceChildren(...buttonsFor(session))
  }
  const buttonsFor = (session: Session): readonly HTMLElement[] => {
    const { id } = session
    const remove = () => device.client.send('DELETE', `/sessions/${id}`, { signal: soon() })
    const admit = (replaced = 'false') =>
      device.client.send('POST', `/sessions/${id}/admit?replace=${replaced}`, { signal: soon() })
    if (session.state !== 'pending') return [decision(session, texts.end, remove)]
    return [decision(session, texts.deny, remove), decision(session, texts.allow, admit, 'primary')]
  }
  /**
   * Creates the button for a decision. If the device refuses it because another session would have to end, it asks about that.
   * @param act Is given the id of the session that may be ended, if any.
   */
  const decision = (
    session: Session,
    says: Says,
    act: (replaced?: string) => Promise<unknown>,
    kind = 'danger',
  ): HTMLElement => {
    const decide = async (replaced?: string) => {
      // The row will be removed, with the focus in it.
      const heading = element.closest('section')?.querySelector('h3')
      say(problem, '')
      const wasPressed = document.activeElement === made
      actions.inert = true
      decided = says
      made.textContent = says.doing
      let isDone = false
      try {
        await act(replaced)
        isDone = true
        announce(says.done(nameOf(session)))
      } catch (error) {
        const refusal = error instanceof Refusal ? error : undefined
        if (!isPassing(error) || isRefusedForNow(error)) decided = undefined
        const inTheWay = refusal?.session
        const text = messageOf(error)
        // Another session may be in the way by then.
        const go = () => decide(inTheWay)
        if (inTheWay !== undefined)
          ask({ title: texts.replaceTitle, content: [h('p', {}, foreign(text))], action: texts.replace, go })
        else if (element.isConnected) say(problem, text)
        else announce(text)
      } finally {
        made.textContent = says.text
        // After a decision, the buttons stay inert until its event arrives.
        actions.inert = isDone
        if (wasPressed && [made, document.body].some(element => element === document.activeElement))
          (problem.hidden ? heading : made)?.focus({ preventScroll: true })
      }
    }
    const made = button(says.text, () => decide(), kind)
    made.setAttribute('aria-label', `${says.text}: ${nameOf(session)}`)
    return made
  }
  const outcome = () => {
    if (decided === texts.deny) return texts.gone.denied
    if (decided === texts.end) return texts.gone.ended
    if (last?.state !== 'pending') return texts.gone[last?.state ?? 'active']
    // Without a deadline, the session cannot have timed out.
    return Date.parse(last.deadline ?? '') - deviceNow() < LATE_MS ? texts.gone.timedOut : texts.gone.withdrawn
  }
  const end = (outcome: string) => {
    // A shorter text must not move the rows below.
    facts.style.minHeight = `${facts.offsetHeight}px`
    facts.textContent = outcome
    element.classList.add('gone')
  }
  return { element, update, isLetIn: () => decided === texts.allow, outcome, end }
}

function soon(): AbortSignal {
  return AbortSignal.timeout(DECISION_MS)
}

function nameOf({ name }: Session): string {
  return isBlank(name) ? texts.unnamed : name
}
