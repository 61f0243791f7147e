import { bytesText } from '../bytes.ts'
import { messageOf, Refusal, typeOf } from '../client.ts'
import type { Device } from '../device.ts'
import { ask } from '../dialog.ts'
import { button, foreign, h, newId } from '../dom.ts'
import type { JsonObject } from '../json.ts'
import { device as kept, NAME } from '../storage.ts'
import * as texts from '../texts.ts'
import { momentText } from '../time.ts'
import { announce } from '../toast.ts'
import { Estimate } from '../update/estimate.ts'
import { outcomeText } from '../update/fallback.ts'
import type { UpdateState } from '../update/state.ts'
import { type Part, partOf, upload } from '../update/upload.ts'
import { channelOf, windowText } from '../update/window.ts'
import type { View } from '../view.ts'

/** The name of the file that was begun, for whoever comes back after a reload. */
const FILE = `${NAME} file`

/** What this page is sending. */
interface Sending {
  readonly file: File
  readonly stop: AbortController
  sent: number
  isMoving: boolean
}

/** The versions on the device, and how a new one gets there. */
export function updateView(device: Device): View {
  const element = h(
    'div',
    { class: 'columns' },
    h('h2', {}, texts.update),
    !device.grants.changesSystem && h('p', { class: 'hint' }, texts.updateReadOnly),
    versionsCard(device),
    newVersionCard(device),
  )
  return { element, shown: () => device.followUpdate(), hidden: () => device.leaveUpdate() }
}

/** What runs, and what it can go back to. */
function versionsCard(device: Device): HTMLElement {
  const facts = h('dl', { class: 'facts' })
  const hint = h('p', { class: 'hint', role: 'status' })
  const last = h('div', { role: 'status' })
  const testKeys = h('p', { class: 'hint' }, texts.testKeys)
  const problem = h('p', { class: 'error', role: 'alert' })
  const back = button('', () => goBack())
  const heading = h('h3', { tabindex: -1 }, texts.versions)

  const goBack = () => {
    const { running, other } = device.update.value ?? {}
    const [to, from] = [versionText(other?.version), versionText(running?.version)]
    ask({
      title: `${texts.goBack(to)}?`,
      content: [h('p', {}, texts.goBackHelp(to, from))],
      action: texts.goBack(to),
      isDangerous: true,
      go: async () => say(problem, await failureOf(device.client.send('POST', '/update/rollback'))),
    })
  }
  say(problem, '')
  device.update.follow(update => {
    if (!update) return
    const { running, other, state } = update
    const version = versionText(running.version)
    const isTrial = running.state === 'trial'
    facts.replaceChildren(
      fact(texts.runs, texts.versionIn(version, running.slot, isTrial)),
      fact(
        texts.otherSystem,
        (other.state === 'empty' ? '' : versionText(other.version)) + texts.otherStates[other.state],
      ),
    )
    say(hint, isTrial ? texts.onTrial(version) : '')
    testKeys.hidden = !update.testKeys
    last.replaceChildren(
      ...(update.last ? [outcomeText(update.last), h('p', { class: 'help' }, momentText(update.last.at ?? ''))] : []),
    )
    last.hidden = update.last === undefined
    const canGoBack = other.state === 'good' && ['idle', 'downloaded', 'failed'].includes(state)
    reveal(heading, [[back, canGoBack && device.grants.changesSystem]])
    back.textContent = `${texts.goBack(versionText(other.version))}…`
  })
  return h(
    'section',
    { class: 'card' },
    heading,
    testKeys,
    hint,
    facts,
    last,
    problem,
    h('div', { class: 'actions' }, back),
  )
}

/** From a file or a channel to the restart. */
function newVersionCard(device: Device): HTMLElement {
  const { client } = device
  const heading = h('h3', { tabindex: -1 }, texts.newVersion)
  const help = h('p', { class: 'help' }, texts.newVersionHelp)
  const status = h('p', { role: 'status' })
  const channel = h('p', { class: 'help' })
  const bar = h('progress', { max: 1, 'aria-label': texts.newVersion })
  const far = h('p', { class: 'help' })
  const problem = h('p', { class: 'error', role: 'alert' })
  const estimate = new Estimate()
  /** What has come of an upload that stands still. */
  let part: Part | undefined
  let sending: Sending | undefined
  /** What went wrong here, until something else is done. */
  let failure = ''

  const attempt = async (request: () => Promise<unknown>) => {
    failure = ''
    failure = await failureOf(request())
    show()
  }
  const send = async (file: File | undefined) => {
    if (!file) return
    const mine: Sending = { file, stop: new AbortController(), sent: 0, isMoving: true }
    const stop = () => mine.stop.abort()
    device.closed.addEventListener('abort', stop)
    sending = mine
    kept.setItem(FILE, file.name)
    estimate.reset()
    // A phone that goes to sleep sends nothing.
    const lock = await navigator.wakeLock?.request('screen').catch(() => undefined)
    await attempt(() =>
      upload(
        client,
        file,
        (sent, isMoving) => {
          mine.sent = sent
          mine.isMoving = isMoving
          show()
        },
        mine.stop.signal,
      ).finally(() => {
        sending = undefined
        lock?.release()
        device.closed.removeEventListener('abort', stop)
      }),
    )
    // Stopped by hand: it is no mistake.
    if (mine.stop.signal.aborted) failure = ''
    readPart()
  }
  const discard = () => {
    sending?.stop.abort()
    attempt(() => client.send('DELETE', '/update/bundle'))
  }
  const chooser = h('input', {
    type: 'file',
    hidden: true,
    'aria-label': texts.chooseFile,
    change: () => {
      send(chooser.files?.[0])
      // The same file may be chosen again.
      chooser.value = ''
    },
  })
  const post = (path: string, body?: JsonObject) => client.send('POST', path, body && { body })
  const install = (restart: string, allowOlder = false) =>
    attempt(async () => {
      try {
        await post('/update/install', { restart, allowOlder })
      } catch (error) {
        if (!(error instanceof Refusal) || error.type !== 'bundle-older') throw error
        askOlder(device, () => install(restart, true))
      }
    })
  const restart = () =>
    ask({
      title: `${texts.restartNow}?`,
      content: [h('p', {}, texts.restartHelp)],
      action: texts.restartNow,
      go: () => attempt(() => post('/operations/reboot')),
    })
  const check = () =>
    attempt(async () => {
      await post('/update/check')
      announce(texts.checkStarted)
    })
  const buttons = {
    stop: button(texts.stopSending, discard),
    discard: button(texts.discardFile, discard),
    check: button(texts.checkNow, check),
    fetch: button('', () => attempt(() => post('/update/download', { url: channelOf(device.system.value) }))),
    choose: button('', () => chooser.click(), 'primary'),
    install: button(`${texts.install}…`, () => askInstall(device, install), 'primary'),
    restart: button(`${texts.restartNow}…`, restart, 'primary'),
  }

  const show = () => {
    const update = device.update.value
    if (!update) return
    const { state, available, running, bundle } = update
    const rest = sending || bundle ? undefined : part
    say(status, sending ? sendingText(sending) : rest ? partText(rest) : statusText(update, device.system.value))
    say(problem, failure || (sending || rest ? '' : errorText(update)))
    const { done, whole } = progressOf(update, sending)
    bar.hidden = far.hidden = whole === 0
    if (whole > 0) {
      bar.value = done / whole
      const left = estimate.left(done, whole, performance.now())
      far.textContent =
        state === 'installing' && !sending
          ? texts.percentOf(done, left)
          : texts.progressOf(bytesText(done), bytesText(whole), left)
    } else estimate.reset()
    const isNew = available !== undefined && available.version !== running.version
    say(
      channel,
      available === undefined
        ? ''
        : (isNew ? texts.inChannel : texts.newestIsHere)(available.version, momentText(available.checkedAt)),
    )
    const mayAct = device.grants.changesSystem
    const isIdle = mayAct && !sending && (state === 'idle' || state === 'failed')
    const isDownloaded = mayAct && !sending && state === 'downloaded'
    const hasChannel = channelOf(device.system.value) !== ''
    help.hidden = !isIdle || bundle !== undefined
    buttons.choose.textContent = `${rest ? texts.chooseAgain : texts.chooseFile}…`
    buttons.fetch.textContent = texts.downloadVersion(available?.version ?? '')
    reveal(heading, [
      [buttons.stop, sending !== undefined || (mayAct && state === 'downloading')],
      [buttons.discard, isDownloaded || (isIdle && (bundle ?? rest) !== undefined)],
      [buttons.check, isIdle && hasChannel],
      [buttons.fetch, isIdle && hasChannel && isNew],
      [buttons.choose, isIdle && bundle === undefined],
      [buttons.install, isDownloaded || (isIdle && bundle !== undefined)],
      [buttons.restart, mayAct && state === 'installed'],
    ])
  }
  /** Nothing tells of it but the device's answer about the bundle. */
  const readPart = async () => {
    part = undefined
    if (['idle', 'failed'].includes(device.update.value?.state ?? '') && !sending)
      part = await partOf(client, device.closed).catch(() => undefined)
    show()
  }
  let state = ''
  device.update.follow(update => {
    show()
    if (update?.state === state) return
    state = update?.state ?? ''
    readPart()
  })
  device.system.follow(show)
  return h(
    'section',
    { class: 'card' },
    heading,
    help,
    status,
    bar,
    far,
    channel,
    problem,
    chooser,
    h('div', { class: 'actions' }, ...Object.values(buttons)),
  )
}

function askInstall(device: Device, go: (restart: string) => void): void {
  const { bundle, running } = device.update.value ?? {}
  const window = windowText(device.system.value)
  const select = h(
    'select',
    { id: newId() },
    window !== undefined && h('option', { value: 'window' }, texts.restarts.window),
    h('option', { value: 'manual' }, texts.restarts.manual),
    h('option', { value: 'now' }, texts.restarts.now),
  )
  ask({
    title: texts.installTitle(versionText(bundle?.version)),
    content: [
      h('p', {}, texts.installHelp(versionText(running?.version))),
      h('div', { class: 'field' }, h('label', { for: select.id }, texts.restartWhen), select),
      window !== undefined && h('p', { class: 'help' }, texts.windowIs(window)),
    ],
    action: texts.install,
    go: () => go(select.value),
  })
}

function askOlder(device: Device, go: () => void): void {
  const { bundle, running } = device.update.value ?? {}
  ask({
    title: texts.olderTitle,
    content: [h('p', {}, texts.olderHelp(versionText(bundle?.version), versionText(running?.version)))],
    action: texts.installAnyway,
    isDangerous: true,
    go,
  })
}

function sendingText({ file, sent, isMoving }: Sending): string {
  if (!isMoving) return texts.interrupted
  return sent === file.size ? texts.checking : texts.sending
}

function partText({ receivedBytes, bytes }: Part): string {
  return texts.partThere(bytesText(receivedBytes), bytesText(bytes), kept.getItem(FILE) ?? '')
}

function statusText({ state, bundle, other, waitingFor }: UpdateState, system: JsonObject): string {
  const said = texts.activities[state]
  const { version } = (state === 'installed' ? other : bundle) ?? {}
  const text = typeof said === 'string' ? said : said(versionText(version))
  if (waitingFor === undefined) return text
  return `${text} ${texts.waitsFor[waitingFor](windowText(system) ?? '')}`
}

/** In words that need no knowledge of bundles, where there are any. */
function errorText({ error }: UpdateState): string {
  if (!error) return ''
  return texts.bundleProblems[typeOf(error.type)] ?? error.detail
}

/** How much of it is done; of nothing where there is nothing to be seen. */
function progressOf(
  { state, bundle, percent = 0 }: UpdateState,
  sending: Sending | undefined,
): { readonly done: number; readonly whole: number } {
  if (sending) return { done: sending.sent, whole: sending.file.size }
  if (state === 'installing') return { done: percent, whole: 100 }
  const isComing = state === 'receiving' || state === 'downloading'
  return { done: bundle?.receivedBytes ?? 0, whole: isComing ? (bundle?.bytes ?? 0) : 0 }
}

/** The message if a request failed, in words of the page where it has any. */
async function failureOf(request: Promise<unknown>): Promise<string> {
  try {
    await request
    return ''
  } catch (error) {
    return (error instanceof Refusal && texts.bundleProblems[error.type]) || messageOf(error)
  }
}

function versionText(version: string | undefined): string {
  return version ?? texts.unknownVersion
}

function fact(label: string, value: string): HTMLElement {
  return h('div', {}, h('dt', {}, label), h('dd', {}, foreign(value)))
}

function say(element: HTMLElement, text: string): void {
  // A screen reader repeats what is written again.
  if (element.textContent !== text) element.textContent = text
  element.hidden = text === ''
}

/** Shows or hides buttons. One that goes leaves the focus at the heading. */
function reveal(heading: HTMLElement, buttons: readonly (readonly [button: HTMLElement, isShown: boolean])[]): void {
  for (const [button, isShown] of buttons) {
    if (!isShown && button === document.activeElement) heading.focus()
    button.hidden = !isShown
  }
}
