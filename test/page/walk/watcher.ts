/** Runs in the page: reads its text, finds the controls that can be pressed, and notes a finger's hits. */

/** The page as it can be read. */
export interface Shown {
  /** The heading of the view; empty before there is one. */
  readonly view: string
  /** The page's text on its connection; empty if it shows no device. */
  readonly state: string
  readonly isSigningIn: boolean
  readonly name: string
  readonly title: string
  readonly summary: string
  readonly waiting: readonly string[]
  readonly mirroring: readonly string[]
  readonly called: string
  /** By `card/label`. */
  readonly fields: Readonly<Record<string, string>>
  readonly notes: Readonly<Record<string, string>>
  /** Of Wi-Fi, in order of preference. */
  readonly networks: readonly { readonly ssid: string; readonly isConnected: boolean }[]
  /** The text on a new version. */
  readonly update: string
  /** Cards that offer to save. */
  readonly unsaved: readonly string[]
  /** Names of pressable controls. */
  readonly buttons: readonly string[]
  /** A press waits for its answer. */
  readonly isBusy: boolean
  /** The heading of an open dialog. */
  readonly dialog: string
  /** The key that a dialog shows. */
  readonly key: string
  readonly banners: readonly string[]
  readonly toast: string
  /** In sight, and of cards. */
  readonly problems: readonly { readonly card: string; readonly text: string }[]
  readonly text: string
}

/** A hit of a finger. */
export interface Hit {
  /** The name of the control; empty if it was none. */
  readonly name: string
  /** It is the one that was aimed at. */
  readonly isAimed: boolean
  /** For how many milliseconds it was there. */
  readonly steadyMs: number
  /** The controls' values at that moment, by `card/label`. */
  readonly fields: Readonly<Record<string, string>>
  readonly networks: Shown['networks']
}

export interface Watcher {
  look(): Shown
  /** Brings a control into sight. @returns its middle, once a finger would hit it; undefined before. */
  aim(name: string): { readonly x: number; readonly y: number } | undefined
  /** The hit since `aim`. */
  hit(): Hit | undefined
}

/** Called in the page before anything else. */
export function install(): void {
  const LOOK_MS = 20
  const CONTROLS = 'button, a, input, select, label'
  const BUSY = ['Letting in…', 'Denying…', 'Ending…', 'Saving…', 'Looking…']
  const all = (selector: string, inside: ParentNode = document) => [...inside.querySelectorAll<HTMLElement>(selector)]
  const textOf = (selector: string, inside: ParentNode = document) => inside.querySelector(selector)?.textContent ?? ''
  const textsOf = (selector: string) =>
    all(selector).flatMap(element => (element.checkVisibility() ? [textOf('p', element) || element.innerText] : []))
  const shownBy = (control: Element | null | undefined) => {
    if (control instanceof HTMLInputElement)
      return control.type === 'checkbox' ? String(control.checked) : control.value
    return control instanceof HTMLSelectElement ? control.value : ''
  }
  const labels = () =>
    all('.settings .card').flatMap(card =>
      all('.field', card).flatMap(field => {
        const label = field.querySelector('label')
        return label ? [{ key: `${textOf('h3', card)}/${label.textContent}`, field, label }] : []
      }),
    )
  const fields = () => Object.fromEntries(labels().map(({ key, label }) => [key, shownBy(label.control)]))
  const dialog = () => all('dialog[open]').at(-1)
  const networks = () =>
    all('ol.networks li').map(row => ({
      ssid: textOf('bdi', row),
      isConnected: textOf('.help', row).startsWith('connected'),
    }))
  const isPressable = (element: HTMLElement) =>
    dialog()?.contains(element) !== false &&
    element.checkVisibility({ visibilityProperty: true }) &&
    !element.matches(':disabled') &&
    !element.closest('[inert]')
  const nameOf = (element: Element | null | undefined) => {
    if (!element) return ''
    const ownField = labels().find(({ field, label }) => label.control === element || field.contains(element))
    if (ownField) return `${element.matches('button') ? element.textContent : 'Field'}: ${ownField.key}`
    return element.getAttribute('aria-label') ?? element.textContent ?? ''
  }
  const rows = (at: number) => {
    const list = document.querySelectorAll('ul.sessions')[at]
    return list ? all('li:not(.gone) h4', list).map(({ textContent }) => textContent ?? '') : []
  }
  const under = (x: number, y: number) => document.elementFromPoint(x, y)?.closest(CONTROLS) ?? undefined

  let aimed: Element | undefined
  let place = { x: 0, y: 0 }
  let there: Element | undefined
  let since = 0
  let hit: Hit | undefined
  const look = () => {
    if (!aimed) return
    const now = under(place.x, place.y)
    if (now === there) return
    there = now
    since = performance.now()
  }
  setInterval(look, LOOK_MS)
  addEventListener(
    'click',
    event => {
      if (!aimed || hit || !event.isTrusted) return
      const element = event.target instanceof Element ? event.target.closest(CONTROLS) : undefined
      const steadyMs = element === there ? performance.now() - since : 0
      hit = { name: nameOf(element), isAimed: element === aimed, steadyMs, fields: fields(), networks: networks() }
    },
    true,
  )
  const watcher: Watcher = {
    look: () => ({
      view: textOf('main h2'),
      state: textOf('.state'),
      isSigningIn: document.querySelector('form.sign-in') !== null,
      name: textOf('h1'),
      title: document.title,
      summary: textOf('.summary'),
      waiting: rows(0),
      mirroring: rows(1),
      called:
        all('.help:has(bdi)').find(({ hidden, textContent }) => !hidden && textContent?.startsWith('Phones'))
          ?.textContent ?? '',
      fields: fields(),
      networks: networks(),
      update: textOf('main h2 ~ .card:has(input[type=file]) p[role=status]'),
      notes: Object.fromEntries(labels().map(({ key, field }) => [key, textOf('.note bdi', field)])),
      unsaved: all('.settings .card').flatMap(card =>
        card.querySelector('.actions .primary')?.checkVisibility() ? [textOf('h3', card)] : [],
      ),
      buttons: all('button, body > nav a').filter(isPressable).map(nameOf),
      isBusy:
        document.querySelector('.networks[inert]') !== null ||
        all('button').some(({ textContent }) => BUSY.includes(textContent ?? '')),
      dialog: textOf('h2', dialog() ?? new DocumentFragment()),
      key: shownBy(dialog()?.querySelector('input[readonly]')),
      banners: textsOf('.banner'),
      toast: textOf('.toast'),
      problems: all('.card .error').flatMap(element => {
        const card = element.closest<HTMLElement>('.card')
        return card && element.checkVisibility() ? [{ card: textOf('h3', card), text: element.innerText }] : []
      }),
      text: document.body.innerText,
    }),
    aim: name => {
      const found = all(CONTROLS).find(element => isPressable(element) && nameOf(element) === name)
      if (!found) return undefined
      if (found !== aimed) found.scrollIntoView({ block: 'center', behavior: 'instant' })
      const { left, top, width, height } = found.getBoundingClientRect()
      place = { x: Math.floor(left + width / 2), y: Math.floor(top + height / 2) }
      hit = undefined
      aimed = found
      look()
      return there === found ? place : undefined
    },
    hit: () => hit,
  }
  Object.assign(globalThis, { watcher })
}
