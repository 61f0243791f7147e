import { messageOf, Refusal, Unreachable } from '../client.ts'
import type { Device, Session } from '../device.ts'
import { ask } from '../dialog.ts'
import { button, foreign, h, problemLine, say } from '../dom.ts'
import * as texts from '../texts.ts'
import { durationText } from '../time.ts'
import { announce } from '../toast.ts'
import type { View } from '../view.ts'
import { whileShown } from '../while-shown.ts'

/** Milliseconds between two looks at the clock, which counts down while somebody waits. */
const CLOCK_MS = 1_000
/** Milliseconds for which a row that goes stays in its place: a finger on its way must not hit the next one. */
const GONE_MS = 2_000
/** Milliseconds for which a row that has moved, or is new, takes no finger: it may be on its way to what was there before. */
const MOVED_MS = 500
/** Milliseconds for the answer to a decision. The device itself gives up after five seconds. */
const DECISION_MS = 8_000
/** The clock of this device and that of the browser may differ by this many milliseconds. */
const LATE_MS = 2_000

/** The moderator's view: the devices that wait, and those that mirror. */
export function sessionsView(device: Device): View {
  const waiting = h('ul', { class: 'sessions' })
  const mirroring = h('ul', { class: 'sessions' })
  const nobodyWaits = h('p', { class: 'nobody' }, texts.nobodyWaits)
  const nobodyMirrors = h('p', { class: 'nobody' }, texts.nobodyMirrors)
  const items = new Map<string, Item>()
  let asked: ReadonlySet<string> | undefined

  const tidy = () => {
    nobodyWaits.hidden = waiting.childElementCount > 0
    nobodyMirrors.hidden = mirroring.childElementCount > 0
  }
  const moving = (change: () => void) => {
    const places = new Map(Array.from(items.values(), item => [item, topOf(item)]))
    change()
    for (const item of items.values()) if (places.get(item) !== topOf(item)) item.moved()
  }
  const fade = (item: Item, outcome = item.outcome()) => {
    item.end(outcome)
    const remove = () => {
      item.element.remove()
      tidy()
    }
    setTimeout(() => moving(remove), GONE_MS)
  }

  // Rows that stay are not rebuilt, and none moves up at once: a finger on its way to a button must find it there.
  const update = (sessions: readonly Session[]) => {
    const here = new Set(sessions.map(({ id }) => id))
    for (const [id, item] of items) {
      if (here.has(id)) continue
      items.delete(id)
      fade(item)
    }
    for (const session of sessions) {
      const list = session.state === 'pending' ? waiting : mirroring
      let item = items.get(session.id)
      if (item?.element.parentElement === waiting && list !== waiting) {
        fade(item, texts.letIn(item.isDecided()))
        item = undefined
      }
      item ??= sessionItem(device)
      items.set(session.id, item)
      item.update(session)
      if (item.element.parentElement !== list) list.append(item.element)
    }
    tidy()
    const pending = sessions.filter(({ state }) => state === 'pending')
    const added = pending.filter(({ id }) => asked && !asked.has(id))
    if (added.length > 0) announce(added.map(session => texts.asks(nameOf(session))).join(' '))
    asked = new Set(pending.map(({ id }) => id))
  }
  const show = (sessions: readonly Session[]) => moving(() => update(sessions))
  device.sessions.follow(show)
  const hint = h('p', { class: 'hint', hidden: true }, texts.notModerated)
  const called = h('p', { class: 'help', hidden: true })
  const explain = () => {
    hint.hidden = device.isOpen !== true
    const name = device.nameOnPhones
    called.hidden = name === undefined
    called.replaceChildren(texts.phonesSee, ' ', foreign(name ?? ''), '.')
  }
  device.system.follow(() => moving(explain))
  const element = h(
    'div',
    { class: 'columns' },
    h('h2', {}, texts.sessions),
    hint,
    h('section', { class: 'card' }, h('h3', { tabindex: -1 }, texts.waiting), waiting, nobodyWaits),
    h('section', { class: 'card' }, h('h3', { tabindex: -1 }, texts.mirroring), mirroring, nobodyMirrors, called),
  )
  return { element, shown: () => whileShown(element, CLOCK_MS, () => show(device.sessions.value)) }
}

/** The row of a session. */
interface Item {
  readonly element: HTMLElement
  readonly update: (session: Session) => void
  /** Whether it was decided about here. */
  readonly isDecided: () => boolean
  /** How the session ended. */
  readonly outcome: () => string
  /** Shows it as over: nothing can be pressed any more. */
  readonly end: (outcome: string) => void
  /** Takes no finger for a moment. Keys have their focus, which moves with it. */
  readonly moved: () => void
}

/** The effect and the texts of a button. */
interface Decision {
  readonly text: string
  /** Instead of `text`, until there is an answer. */
  readonly doing: string
  /** Announced then. */
  readonly done: (name: string) => string
  readonly kind: string
  /** Undefined if it was not done after all. */
  readonly act: () => Promise<unknown>
}

function sessionItem(device: Device): Item {
  const name = h('h4', {})
  const facts = h('p', { class: 'help' })
  const problem = problemLine()
  const actions = h('div', { class: 'decide' })
  const element = h('li', {}, h('div', { class: 'who' }, name, facts), actions, problem)
  let shown = ''
  let isDecided = false
  let last: Session | undefined
  let steady = 0

  const update = (session: Session) => {
    last = session
    name.replaceChildren(foreign(nameOf(session)))
    const { protocol, model, address, since, deadline, state } = session
    const leftMs = deadline === undefined ? undefined : Date.parse(deadline) - Date.now()
    const time =
      leftMs === undefined ? durationText((Date.now() - Date.parse(since)) / 1000) : texts.leftOf(state, leftMs)
    const known = [texts.sessionStates[state], texts.protocolOf(protocol), texts.modelOf(model), address, time]
    facts.replaceChildren(...known.filter(text => text !== '').map(text => foreign(text)))
    element.className = state
    if (shown === state || !device.grants.decidesSessions) return
    shown = state
    actions.replaceChildren(...buttonsFor(session))
  }
  const buttonsFor = (session: Session): readonly HTMLElement[] => {
    const remove = () => device.client.send('DELETE', `/sessions/${session.id}`, { signal: soon() })
    if (session.state !== 'pending')
      return [
        decision(session, { text: texts.end, doing: texts.ending, done: texts.ended, kind: 'danger', act: remove }),
      ]
    return [
      decision(session, { text: texts.deny, doing: texts.denying, done: texts.denied, kind: 'danger', act: remove }),
      decision(session, {
        text: texts.allow,
        doing: texts.allowing,
        done: texts.allowed,
        kind: 'primary',
        act: () => admit(device, session),
      }),
    ]
  }
  const decision = (session: Session, { text, doing, done, kind, act }: Decision): HTMLElement => {
    const decide = async () => {
      // The row goes, and takes the focus with it.
      const heading = element.closest('section')?.querySelector('h3')
      say(problem, '')
      const wasPressed = document.activeElement === made
      actions.inert = true
      isDecided = true
      made.textContent = doing
      try {
        if ((await act()) !== undefined) announce(done(nameOf(session)))
        else isDecided = false
      } catch (error) {
        isDecided = false
        say(problem, messageOf(error))
        if (error instanceof Unreachable) device.doubt()
      } finally {
        made.textContent = text
        actions.inert = element.classList.contains('gone')
        if (wasPressed && [made, document.body].some(element => element === document.activeElement))
          (problem.hidden ? heading : made)?.focus({ preventScroll: true })
      }
    }
    const made = button(text, decide, kind)
    made.setAttribute('aria-label', `${text}: ${nameOf(session)}`)
    return made
  }
  const outcome = () => {
    if (isDecided) return last?.state === 'pending' ? texts.gone.denied : texts.gone.ended
    const isLate = last?.deadline !== undefined && Date.parse(last.deadline) - Date.now() < LATE_MS
    if (last?.state === 'active') return texts.gone.left
    return isLate ? texts.gone.timedOut : texts.gone.withdrawn
  }
  const end = (outcome: string) => {
    // A shorter text must not move the rows below.
    facts.style.minHeight = `${facts.offsetHeight}px`
    facts.textContent = outcome
    actions.inert = true
    element.classList.add('gone')
  }
  const moved = () => {
    element.dataset.moved = ''
    clearTimeout(steady)
    steady = setTimeout(() => delete element.dataset.moved, MOVED_MS)
  }
  return { element, update, isDecided: () => isDecided, outcome, end, moved }
}

function topOf({ element }: Item): number {
  return element.getBoundingClientRect().top
}

/**
 * Asks first where that would end another session; undefined if it did.
 * @param replaced The session that may be ended for it.
 */
async function admit(device: Device, session: Session, replaced = 'false'): Promise<Response | undefined> {
  try {
    const path = `/sessions/${session.id}/admit?replace=${replaced}`
    return await device.client.send('POST', path, { signal: soon() })
  } catch (error) {
    const inTheWay = error instanceof Refusal ? error.session : undefined
    if (inTheWay === undefined || !(error instanceof Refusal)) throw error
    // By then yet another one may be in the way.
    const go = () => admit(device, session, inTheWay).catch(error => announce(messageOf(error)))
    ask({ title: texts.replaceTitle, content: [h('p', {}, foreign(error.message))], action: texts.replace, go })
    return undefined
  }
}

function soon(): AbortSignal {
  return AbortSignal.timeout(DECISION_MS)
}

function nameOf({ name }: Session): string {
  return name === '' ? texts.unnamed : name
}
