import { messageOf, Refusal } from '../client.ts'
import type { Device } from '../device.ts'
import { ask } from '../dialog.ts'
import { button, checkbox, foreign, h, newId, problemLine, say } from '../dom.ts'
import type { Field } from '../form/field.ts'
import { isEqual, isObject, type Json, type JsonObject } from '../json.ts'
import { shown } from '../name.ts'
import type { Schema } from '../schema.ts'
import * as texts from '../texts.ts'
import { announce } from '../toast.ts'
import { connectedIn, joining } from '../trial/joining.ts'
import { sendPatch } from '../trial/send.ts'

/** A network of the configuration. */
interface Known {
  readonly ssid: string
  readonly password: string
  readonly hidden: boolean
}

/** A network that a scan has found. */
interface Found {
  readonly ssid: string
  readonly signalDbm: number
  readonly security: 'open' | 'psk' | 'sae' | 'enterprise' | 'other'
}

/** IEEE 802.11: a passphrase; and a key, in hexadecimal digits. */
const PASSWORD = '[ -~]{8,63}|[0-9A-Fa-f]{64}'
const MAX_SSID_BYTES = 32
/** Networks that the device keeps. */
const MAX_KNOWN = 8

/** Adds to the card of Wi-Fi what a form cannot do: looking for networks, joining one, and which comes first. */
export function withNetworks(device: Device, schema: Schema, field: Field): Field {
  const known = h('ol', { class: 'networks', 'aria-label': texts.knownNetworks })
  const nothingKnown = h('p', { class: 'help' }, texts.noKnownNetworks)
  const found = h('ul', { class: 'networks', 'aria-label': texts.foundNetworks, hidden: true })
  const problem = problemLine()
  const scan = button(texts.scan, () => look())
  const other = button(texts.otherNetwork, () => askForNetwork())
  const buttons = h('div', { class: 'actions' }, scan, other)

  /** The networks that the device knows now, which others may have changed since a row was built. */
  const networks = () => networksOf(device.system.value)
  const others = (than: Known) => networks().filter(({ ssid }) => ssid !== than.ssid)

  /** What was entered for a network that the device could not join: to be corrected while the view stays. */
  let entered: Known | undefined
  const forget = () => {
    entered = undefined
  }

  /** Undone if the device does not come into the network that it is to join. */
  const change = async (next: readonly Known[], joined?: string) => {
    say(problem, '')
    announce('')
    const body: JsonObject = { wifi: { networks: next.map(network => ({ ...network })) } }
    const goal = joined !== undefined && joining(joined)
    buttons.inert = known.inert = found.inert = true
    try {
      const outcome = await sendPatch(device, { settings: { wifi: schema }, body, ...(goal && { goal }) })
      forget()
      announce(joined === undefined ? outcome : texts.joined(shown(joined)))
    } catch (error) {
      const [first] = error instanceof Refusal ? error.errors : []
      say(problem, first?.detail ?? messageOf(error))
    } finally {
      buttons.inert = known.inert = found.inert = false
    }
  }
  const join = (network: Known) => {
    const rest = others(network)
    if (rest.length >= MAX_KNOWN) return say(problem, texts.tooManyNetworks(MAX_KNOWN))
    entered = network
    addEventListener('hashchange', forget, { once: true })
    device.closed.addEventListener('abort', forget)
    change([network, ...rest], network.ssid)
  }
  /** Anybody can listen in, and anybody can set one up under that name. */
  const joinOpen = (network: Known) =>
    ask({
      title: texts.openTitle(shown(network.ssid)),
      content: [h('p', {}, texts.openWarning)],
      action: texts.joinOpen,
      isDangerous: true,
      go: () => join(network),
    })
  const askForNetwork = (found?: Found) =>
    askForEntries(found, entered, network => (network.password === '' ? joinOpen(network) : join(network)))

  const look = async () => {
    say(problem, '')
    scan.disabled = true
    scan.textContent = texts.scanning
    try {
      const { wifi } = await device.client.read<{ wifi?: { networks: readonly Found[] } }>('/system/choices?scan=true')
      const all = wifi?.networks ?? []
      found.replaceChildren(...all.map(network => foundRow(network, () => choose(network))))
      found.hidden = all.length === 0
      announce(texts.networksFound(all.length))
    } catch (error) {
      say(problem, messageOf(error))
    } finally {
      scan.disabled = false
      scan.textContent = texts.scan
    }
  }
  const choose = (network: Found) => {
    if (network.security === 'open') joinOpen({ ssid: network.ssid, password: '', hidden: false })
    else askForNetwork(network)
  }

  let last: Json | undefined
  device.system.follow(system => {
    // A row that is not built anew keeps the focus.
    if (isEqual(system.wifi, last)) return
    last = system.wifi
    const all = networksOf(system)
    nothingKnown.hidden = all.length > 0
    known.hidden = all.length === 0
    known.replaceChildren(
      ...all.map((network, at) => {
        const remove = () =>
          ask({
            title: texts.removeTitle(shown(network.ssid)),
            content: [h('p', {}, texts.removeWarning)],
            action: texts.remove,
            isDangerous: true,
            go: () => change(others(network)),
          })
        const actions = [
          at > 0 && named(texts.prefer, network, () => change([network, ...others(network)])),
          named(texts.remove, network, remove),
        ]
        const isConnected = connectedIn(system) === network.ssid
        const facts = [
          ...(isConnected ? [texts.connectedNow] : []),
          network.password === '' ? texts.securities.open : texts.securities.psk,
          ...(network.hidden ? [texts.hidden] : []),
        ]
        return row(
          network.ssid,
          facts.join(' · '),
          device.grants.changesSystem && h('div', { class: 'actions' }, ...actions),
        )
      }),
    )
  })
  const panel = h(
    'div',
    { class: 'group' },
    h('h4', {}, texts.knownNetworks),
    nothingKnown,
    known,
    device.grants.changesSystem && buttons,
    problem,
    found,
  )
  return { ...field, element: h('div', { class: 'group' }, field.element, panel) }
}

/** The text for a signal: what it is good for, and in numbers for those who compare. */
export function signalText(signalDbm: number): string {
  const grade = signalDbm >= -60 ? 'strong' : signalDbm >= -72 ? 'good' : 'weak'
  return `${texts.signals[grade]} (${signalDbm} dBm)`
}

function foundRow(network: Found, join: () => void): HTMLElement {
  const { ssid, signalDbm, security } = network
  const canJoin = security !== 'enterprise' && security !== 'other'
  return row(
    ssid,
    `${signalText(signalDbm)} · ${texts.securities[security]}`,
    canJoin && named(texts.join, network, join),
  )
}

function row(ssid: string, facts: string, actions: Node | false): HTMLElement {
  return h('li', {}, h('div', {}, foreign(shown(ssid)), h('p', { class: 'help' }, facts)), actions)
}

/** A list of all buttons, as screen readers have one, must tell them apart. */
function named(text: string, { ssid }: { readonly ssid: string }, click: () => void): HTMLButtonElement {
  const made = button(text, click)
  made.setAttribute('aria-label', `${text}: ${shown(ssid)}`)
  return made
}

/** Asks for the password, and for the name as well where none was found. @param entered What was entered before. */
function askForEntries(found: Found | undefined, entered: Known | undefined, go: (network: Known) => void): void {
  const text = { type: 'text', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'none' }
  const name = h('input', { ...text, id: newId(), dir: 'auto', required: true, autofocus: true })
  const password = h('input', {
    ...text,
    id: newId(),
    type: 'password',
    pattern: PASSWORD,
    required: found !== undefined,
    autofocus: found !== undefined,
  })
  const show = checkbox(texts.show)
  show.input.addEventListener('input', () => {
    password.type = show.input.checked ? 'text' : 'password'
  })
  const ssid = () => found?.ssid ?? name.value
  if (entered && (found ? found.ssid === entered.ssid : entered.hidden)) {
    name.value = entered.ssid
    password.value = entered.password
  }
  ask({
    title: found ? texts.joinTitle(shown(found.ssid)) : texts.otherNetworkTitle,
    content: [
      found === undefined && h('div', { class: 'field' }, h('label', { for: name.id }, texts.ssid), name),
      h(
        'div',
        { class: 'field' },
        h('label', { for: password.id }, texts.password),
        password,
        h('p', { class: 'help' }, found === undefined ? texts.passwordOrNone : texts.passwordHelp),
      ),
      show.row,
    ],
    action: texts.join,
    isValid: () => {
      const bytes = new TextEncoder().encode(ssid()).length
      return password.validity.valid && bytes > 0 && bytes <= MAX_SSID_BYTES
    },
    go: () => go({ ssid: ssid(), password: password.value, hidden: found === undefined }),
  })
}

function networksOf({ wifi }: JsonObject): readonly Known[] {
  return isObject(wifi) && Array.isArray(wifi.networks) ? (wifi.networks as unknown as readonly Known[]) : []
}
