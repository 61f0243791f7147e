import type { UpdateState } from '../../update/state.ts'
import type { Device } from '../device.ts'
import { askAbout } from '../dialog.ts'
import { button, h, say } from '../dom.ts'
import * as texts from '../texts.ts'
import { momentText } from '../time.ts'
import { outcomeText } from '../update/fallback.ts'
import { newVersionCard, reveal } from '../update/new-version.ts'
import { newsOf, wasAskedFor } from '../update/state.ts'
import type { View } from '../view.ts'
import { questionOn } from './operations.ts'
import { fact } from './status.ts'

/** The view with the versions on the device, and the card that installs a new one. */
export function updateView(device: Device): View {
  const element = h(
    'div',
    { class: 'columns' },
    h('h2', {}, texts.update),
    !device.grants.changesSystem && h('p', { class: 'hint' }, texts.readOnlySettings),
    versionsCard(device),
    newVersionCard(device),
  )
  return { element, shown: () => device.followUpdate(), hidden: () => device.leaveUpdate() }
}

/** Returns the name of the button that restarts into the other system, which is forward after going back. */
function titleOf(update: UpdateState | undefined): string {
  const { other, last } = update ?? {}
  const isForward = last && wasAskedFor(last) && last.version === other?.version
  return (isForward ? texts.goTo : texts.goBack)(other?.version)
}

/** Creates the card with the running version, and the one that the device can go back to. */
function versionsCard(device: Device): HTMLElement {
  const heading = h('h3', { tabindex: -1 }, texts.versions)
  const testKeys = h('p', { class: 'hint' }, texts.testKeys)
  const trial = h('p', { class: 'hint', role: 'status' })
  const facts = h('dl', { class: 'facts' })
  const last = h('div', { class: 'outcome', role: 'status' })
  const back = button('', () => {
    const path = '/update/rollback'
    const help = device.document.help('POST', path)
    askAbout(
      () => titleOf(device.update.value),
      title => questionOn(device, { path, title, help }),
    )
  })
  device.update.follow(update => {
    if (!update) return
    const { running, other, state } = update
    testKeys.hidden = !update.testKeys
    say(trial, running.state === 'trial' ? texts.onTrial : '')
    facts.replaceChildren(
      fact(texts.runs, texts.versionIn(running.version, running.slot)),
      fact(
        texts.otherSystem,
        state === 'installing' ? texts.beingWritten : texts.otherStates[other.state](other.version),
      ),
    )
    const news = newsOf(update)
    last.hidden = !news
    last.replaceChildren(...(news ? [outcomeText(news), h('p', { class: 'help' }, momentText(news.at ?? ''))] : []))
    back.textContent = `${titleOf(update)}…`
    const isIdle = ['idle', 'downloaded', 'failed'].includes(state)
    reveal(heading, [[back, isIdle && other.state === 'good' && device.grants.changesSystem]])
  })
  return h('section', { class: 'card' }, heading, testKeys, trial, facts, last, h('div', { class: 'actions' }, back))
}
