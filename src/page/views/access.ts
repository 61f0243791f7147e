import { type Client, messageOf } from '../client.ts'
import { keepNextKey, linkFor, nextKey } from '../credential.ts'
import type { Device } from '../device.ts'
import { ask, openDialog } from '../dialog.ts'
import { button, checkbox, h, problemLine, say } from '../dom.ts'
import * as texts from '../texts.ts'
import type { Actions, View } from '../view.ts'
import { keepFresh } from '../while-shown.ts'
import { issuersCard } from './issuers-card.ts'
import { qrImage } from './qr-image.ts'
import { secret } from './secret.ts'
import { tokenCard } from './token-card.ts'

/** The class of a text that only this dialog shows, and nothing shows again. */
export const ONLY_NOW = 'only-now'

/** The view for holders of the API key: new tokens, the replacement of the key, issuers, and the device's certificate. */
export function accessView(device: Device, actions: Actions): View {
  const { client, document } = device
  const fresh = [
    ...(document.has('GET', '/issuers') ? [issuersCard(client)] : []),
    ...(document.has('GET', '/status') ? [certificateCard(client)] : []),
  ]
  const element = h(
    'div',
    { class: 'columns' },
    h('h2', {}, texts.access),
    document.has('POST', '/tokens') && tokenCard(device),
    keyCard(device, actions),
    ...fresh.map(({ element }) => element),
  )
  const shown = () => {
    for (const card of fresh) card.shown?.()
  }
  return { element, shown }
}

function keyCard(device: Device, actions: Actions): HTMLElement {
  const problem = problemLine()
  const removal = checkbox(texts.removeIssuers)
  const replace = async () => {
    try {
      await replaceKey(device, actions, removal.input.checked, () => {
        say(problem, texts.replacingKey)
      })
      say(problem, '')
    } catch (error) {
      say(problem, messageOf(error))
    }
  }
  const confirm = () =>
    ask({
      title: texts.replaceKeyTitle(device.name),
      content: [h('p', {}, texts.replaceKeyWarning), ...device.losses.map(text => h('p', {}, text)), removal.row],
      action: texts.replaceKey,
      isDangerous: true,
      go: replace,
    })
  return h(
    'section',
    { class: 'card' },
    h('h3', {}, texts.apiKey),
    h('p', { class: 'help' }, texts.replaceKeyHelp),
    problem,
    h('div', { class: 'actions' }, button(`${texts.replaceKey}…`, confirm, 'danger')),
  )
}

/** Creates the card that tells how programs can verify this device; hidden if the device does not serve TLS. */
function certificateCard(client: Client): View {
  const card = h('section', { class: 'card', hidden: true })
  let pin: string | undefined
  const refresh = async () => {
    const { certificate } = await client.read<{ certificate?: { pin: string } }>('/status')
    if (certificate?.pin === pin) return
    pin = certificate?.pin
    card.hidden = pin === undefined
    if (pin === undefined) return
    const url = new URL('api/v1/openapi.json', location.href)
    card.replaceChildren(
      h('h3', {}, texts.certificate),
      h('p', { class: 'help' }, texts.certificateHelp),
      secret(texts.pin, pin),
      secret(texts.tryPin, `curl --insecure --pinnedpubkey 'sha256//${pin}' ${url}`),
    )
  }
  // Without an answer the card stays as it is; the rest of the page reports that the device is unreachable.
  return { element: card, shown: () => keepFresh(card, () => refresh().catch(() => undefined)) }
}

/** Replaces the API key, continues with the new one, and shows it. Parameters as for `Device.replaceKey`. */
export async function replaceKey(
  device: Device,
  actions: Actions,
  removeIssuers: boolean,
  waiting: () => void,
): Promise<void> {
  const { credential } = device.client
  // An earlier one may be in force, if the answer was not that of the device.
  const apiKey = nextKey(credential) ?? newKey()
  keepNextKey(credential, apiKey)
  const issuers = await device.replaceKey(apiKey, removeIssuers, waiting)
  actions.replaceCredential(apiKey)
  showKey(apiKey, issuers)
}

/** Shows the key of a device that has it without having said so. */
export function showKeyOf({ client }: Device): void {
  const issuers = client.read<{ issuers: readonly { name: string }[] }>('/issuers')
  showKey(
    client.credential,
    issuers.then(
      ({ issuers }) => issuers.map(({ name }) => name),
      () => [],
    ),
  )
}

/** Returns 32 random bytes as base64url, like the keys that the device generates. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32))
  return btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, '-')
    .replace(/\//g, '_')
    .replace(/=/g, '')
}

/** Shows the new key once, in a dialog that only its button closes: at once, and the issuers when they are known. */
function showKey(apiKey: string, issuers: readonly string[] | Promise<readonly string[]>): void {
  const stay = h('p', { hidden: true })
  Promise.resolve(issuers).then(names => {
    stay.hidden = names.length === 0
    stay.textContent = texts.issuersStay(names.join(', '))
  })
  const actions = h(
    'div',
    { class: 'actions' },
    button(texts.done, () => close(), 'primary'),
  )
  const content = [
    h('p', { class: ONLY_NOW }, texts.keyReplacedHelp),
    qrImage(linkFor(apiKey), texts.keyQrCode),
    secret(texts.apiKey, apiKey),
    stay,
    actions,
  ]
  const close = openDialog(texts.keyReplaced, content, false)
}
