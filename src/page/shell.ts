import type { Device } from './device.ts'
import { button, foreign, h } from './dom.ts'
import { labelOf, valueText } from './labels.ts'
import { reloadOffer } from './reload-offer.ts'
import { renewalBanner } from './renewal.ts'
import * as texts from './texts.ts'
import { deviceNow } from './time.ts'
import { fallbackBanner } from './update/fallback.ts'
import type { Actions, View } from './view.ts'
import { accessView } from './views/access.ts'
import { logView } from './views/log.ts'
import { sessionsView } from './views/sessions.ts'
import { settingsView } from './views/settings.ts'
import { statusView } from './views/status.ts'
import { updateView } from './views/update.ts'
import { whileShown } from './while-shown.ts'

/** Milliseconds before the credential's expiry at which the page warns, and between two looks at the clock, or the device. */
const EXPIRY_NOTICE_MS = 10 * 60_000
const CLOCK_MS = 20_000

interface Place {
  readonly name: string
  readonly title: string
  readonly make: () => View
}

/** Creates everything around the views: the device's name and state, the navigation, and the banners. */
export function shell(device: Device, actions: Actions): readonly HTMLElement[] {
  const places = placesFor(device, actions)
  const main = h('main', { id: 'main', tabindex: -1 })
  const name = foreign('')
  const state = h('span', { class: 'state', role: 'status' })
  const summary = h('a', { class: 'summary', href: '#sessions', hidden: !device.grants.seesSessions })
  const links = places.map(({ name, title }) => h('a', { href: `#${name}` }, title))
  const views = new Map<string, View>()
  let place: Place | undefined

  const retitle = () => {
    // In a hidden tab, nobody would know that the number is old.
    const isCurrent = device.connection.value === 'connected'
    const waiting = device.sessions.value.filter(({ state }) => isCurrent && state === 'pending').length
    document.title = `${waiting > 0 ? `(${waiting}) ` : ''}${device.name} – ${place?.title ?? texts.product}`
  }
  const go = (isFirst = false) => {
    const next = places.find((_, at) => location.hash === links[at]?.hash && !links[at].hidden) ?? places[0]
    if (!next || next === place) return
    if (place) views.get(place.name)?.hidden?.()
    place = next
    const view = views.get(next.name) ?? next.make()
    views.set(next.name, view)
    main.replaceChildren(view.element)
    view.shown?.()
    links.forEach((link, at) => {
      if (places[at] === next) link.setAttribute('aria-current', 'page')
      else link.removeAttribute('aria-current')
    })
    retitle()
    if (!isFirst) main.focus()
    scrollTo(0, 0)
  }
  const follow = () => {
    if (main.isConnected) go()
    else removeEventListener('hashchange', follow)
  }
  addEventListener('hashchange', follow)
  const lost = h('div', { class: 'banner connection', role: 'alert', hidden: true })
  device.connection.follow(connection => {
    state.textContent = texts.connections[connection]
    const isAway = connection !== 'connected' && connection !== 'connecting'
    state.classList.toggle('lost', isAway)
    retitle()
    lost.hidden = !isAway
    lost.classList.toggle('calm', connection === 'restarting')
    if (!isAway) return void lost.replaceChildren()
    const isUpdating = connection === 'lost' && device.update.value?.state === 'restarting'
    const helps = { ...texts.connectionHelp, refused: texts.refusedForNow(device.refusal) }
    const help = isUpdating ? texts.stillTrying : helps[connection]
    lost.replaceChildren(
      h('p', {}, help),
      button(texts.tryNow, () => device.retry()),
      ...(connection === 'lost' ? reloadOffer() : []),
    )
  })
  device.system.follow(() => {
    name.textContent = device.name
    retitle()
  })
  device.sessions.follow(sessions => {
    const count = (state: string) => sessions.filter(session => session.state === state).length
    summary.textContent = texts.summary(count('pending'), count('active'))
    retitle()
  })
  const toUpdate = links.find(({ hash }) => hash === '#update')
  if (toUpdate) {
    device.update.follow(update => {
      if (toUpdate.hidden === !update) return
      toUpdate.hidden = !update
      if (update) follow()
    })
    whileShown(toUpdate, CLOCK_MS, () => device.findUpdate())
  }
  go(true)
  const { readsSystem, seesSessions } = device.grants
  if (!readsSystem && !seesSessions) whileShown(state, CLOCK_MS, () => device.check())
  return [
    h(
      'a',
      {
        class: 'skip',
        href: '#main',
        click: event => {
          event.preventDefault()
          main.focus()
        },
      },
      texts.skip,
    ),
    h(
      'header',
      {},
      h('div', { class: 'title' }, h('h1', {}, name), h('p', { class: 'states' }, state, summary)),
      button(texts.signOut, actions.signOut, 'quiet'),
    ),
    h('nav', { 'aria-label': texts.views, hidden: places.length < 2 }, ...links),
    lost,
    revertedBanner(device),
    fallbackBanner(device),
    renewalBanner(device),
    expiryBanner(device),
    main,
  ]
}

/** Creates the banner that warns before the credential expires. */
function expiryBanner({ expiresAt }: Device): HTMLElement {
  const banner = h('div', { class: 'banner calm', role: 'status', hidden: true })
  if (expiresAt === undefined) return banner
  const time = new Date(expiresAt).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
  const look = () => {
    if (expiresAt - deviceNow() > EXPIRY_NOTICE_MS) return
    banner.replaceChildren(h('p', {}, texts.expiresSoon(time)))
    banner.hidden = false
  }
  look()
  whileShown(banner, CLOCK_MS, look)
  return banner
}

function placesFor(device: Device, actions: Actions): readonly Place[] {
  const { grants, document } = device
  const places: readonly (Place & { readonly isThere: boolean })[] = [
    { name: 'sessions', title: texts.sessions, isThere: grants.seesSessions, make: () => sessionsView(device) },
    { name: 'settings', title: texts.settings, isThere: grants.readsSystem, make: () => settingsView(device) },
    {
      name: 'status',
      title: texts.statusView,
      isThere: grants.readsSystem || grants.changesSystem,
      make: () => statusView(device),
    },
    {
      name: 'update',
      title: texts.update,
      isThere: 'update' in device.system.value,
      make: () => updateView(device),
    },
    {
      name: 'log',
      title: texts.logs,
      isThere: grants.readsSystem && document.has('GET', '/logs'),
      make: () => logView(device),
    },
    { name: 'access', title: texts.access, isThere: grants.isApiKey, make: () => accessView(device, actions) },
  ]
  return places.filter(({ isThere }) => isThere)
}

/** Creates the banner that lists the changes that the device reverted, until it is closed. */
function revertedBanner(device: Device): HTMLElement {
  const banner = h('div', { class: 'banner', role: 'alert', hidden: true })
  device.reverted.follow(reverted => {
    banner.hidden = reverted === undefined
    if (!reverted) return
    const { reason, properties, notUndone } = reverted
    const list = (names: readonly string[]) => `${names.map(labelOf).join(', ')}.`
    banner.replaceChildren(
      h('p', {}, `${texts.revertedBecause(reason)} ${list(properties)}`),
      notUndone.length > 0 ? h('p', {}, `${texts.notUndone} ${valueText('', notUndone)}.`) : '',
      button(texts.close, () => {
        banner.hidden = true
      }),
    )
  })
  return banner
}
