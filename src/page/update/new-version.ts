import type { UpdateState } from '../../update/state.ts'
import { bytesText } from '../bytes.ts'
import { messageOf, Refusal } from '../client.ts'
import type { Device } from '../device.ts'
import { askAbout } from '../dialog.ts'
import { button, h, newId, problemLine, say } from '../dom.ts'
import type { JsonObject } from '../json.ts'
import { device as kept, NAME } from '../storage.ts'
import * as texts from '../texts.ts'
import { momentText } from '../time.ts'
import { announce } from '../toast.ts'
import { confirmed } from '../views/operations.ts'
import { Estimate } from './estimate.ts'
import { type Part, partOf, upload } from './upload.ts'
import { channelOf, windowText } from './window.ts'

/** The item with the size and the name of the file being uploaded. The name is shown after a reload. */
const FILE = `${NAME} file`

/** Creates the card that takes a new version from a file or the channel to the restart. */
export function newVersionCard(device: Device): HTMLElement {
  const { client, closed, grants, system, update } = device
  const heading = h('h3', { tabindex: -1 }, texts.newVersion)
  const help = h('p', { class: 'help' }, texts.newVersionHelp)
  const status = h('p', { role: 'status' })
  const bar = h('progress', { max: 1, 'aria-label': texts.newVersion })
  const far = h('p', { class: 'help' })
  const channel = h('p', { class: 'help' })
  const problem = problemLine()
  const estimate = new Estimate()
  /** The part that the device received of a stalled upload. */
  let part: Part | undefined
  /** Stops the upload that this page is sending. */
  let sending: AbortController | undefined
  /** The error of the last action here, until the next one. */
  let failure = ''

  const attempt = async (request: Promise<unknown>) => {
    failure = ''
    try {
      await request
    } catch (error) {
      failure = messageOf(error)
    }
    show()
  }
  const send = async (file: File | undefined) => {
    if (!file) return
    const mine = new AbortController()
    sending = mine
    device.unsaved.set(bar, texts.sendingLost)
    closed.addEventListener('abort', () => mine.abort())
    show()
    kept.setItem(FILE, `${file.size} ${file.name}`)
    // A sleeping phone would stop sending.
    const lock = await navigator.wakeLock?.request('screen').catch(() => undefined)
    // Then the upload does not end.
    closed.addEventListener('abort', () => lock?.release())
    await attempt(upload(client, file, mine.signal))
    lock?.release()
    sending = undefined
    device.unsaved.delete(bar)
    // The user stopped it: that is not a failure.
    if (mine.signal.aborted) failure = ''
    readPart()
  }
  /** Reads how much of an upload the device has: the state of the update does not include a stalled one. */
  const readPart = async () => {
    part = isAtRest(update.value) && !sending ? await partOf(client).catch(() => undefined) : undefined
    show()
  }
  const discard = () => {
    sending?.abort()
    attempt(client.send('DELETE', '/update/bundle').then(readPart))
  }
  const chooser = h('input', {
    type: 'file',
    hidden: true,
    'aria-label': texts.chooseFile,
    change: () => {
      send(chooser.files?.[0])
      // Allows choosing the same file again.
      chooser.value = ''
    },
  })
  const post = (path: string, body?: JsonObject) => client.send('POST', `/update/${path}`, body && { body })
  const install = (restart: string, allowOlder = false) => {
    const asked = (error: unknown) => {
      if (!(error instanceof Refusal) || error.type !== 'bundle-older') throw error
      askOlder(device, () => install(restart, true))
    }
    attempt(post('install', { restart, allowOlder }).catch(asked))
  }
  const restart = () =>
    confirmed(device, { path: '/operations/reboot', title: texts.restartNow, help: texts.restartHelp })
  const buttons = {
    stop: button(texts.cancel, discard),
    discard: button(texts.discard, discard),
    check: button(texts.checkNow, () => attempt(post('check').then(() => announce(texts.started(texts.checkNow))))),
    download: button(texts.download, () => attempt(post('download'))),
    choose: button(`${texts.chooseFile}…`, () => chooser.click(), 'primary'),
    install: button(`${texts.install}…`, () => askInstall(device, install), 'primary'),
    restart: button(`${texts.restartNow}…`, restart, 'primary'),
    discardInstalled: button(`${texts.discard}…`, () =>
      askDiscard(device, () => attempt(client.send('DELETE', '/update/install'))),
    ),
  }

  const show = () => {
    const now = update.value
    if (!now) return
    const { state, available, running, bundle, error } = now
    const rest = sending || bundle ? undefined : part
    // The device may report the end of the transfer a moment later.
    const isOver = failure !== '' && state === 'receiving'
    say(status, sending ? sendingText(now) : rest ? partText(rest) : isOver ? '' : statusText(now, system.value))
    say(problem, failure || (!sending && !rest && error?.detail) || '')
    const [done, whole] = isOver ? [0, 0] : progressOf(now)
    bar.hidden = whole === 0
    bar.value = done / (whole || 1)
    const left = estimate.left(done, whole, performance.now())
    // RAUC's percentage jumps, so it allows no estimate.
    const text = state === 'installing' ? `${done} %` : texts.progressOf(bytesText(done), bytesText(whole)) + left
    say(far, whole === 0 ? '' : text)
    say(channel, available ? texts.inChannel(available.version, momentText(available.checkedAt)) : '')
    const isFree = !sending && isAtRest(now)
    const hasBundle = bundle !== undefined
    const hasChannel = isFree && channelOf(system.value) !== ''
    help.hidden = !isFree || hasBundle
    const canInstall = !sending && hasBundle && (isFree || state === 'downloaded')
    const shown: readonly (readonly [HTMLElement, boolean])[] = [
      [buttons.stop, sending !== undefined || state === 'downloading'],
      [buttons.discard, canInstall || (isFree && rest !== undefined)],
      [buttons.check, hasChannel],
      [buttons.download, hasChannel && available !== undefined && available.version !== running.version],
      [buttons.choose, isFree && !hasBundle],
      [buttons.install, canInstall],
      [buttons.restart, state === 'installed'],
      [buttons.discardInstalled, state === 'installed'],
    ]
    reveal(
      heading,
      shown.map(([button, isShown]) => [button, isShown && grants.changesSystem]),
    )
  }
  let state = ''
  update.follow(now => {
    const isNext = now?.state !== state
    state = now?.state ?? ''
    // It was about the step before.
    if (isNext) failure = ''
    show()
    if (isNext) readPart()
  })
  system.follow(show)
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
  const { document, system } = device
  askAbout(
    () => versionHere(device),
    version => {
      const window = windowText(system.value)
      const options = Object.entries(texts.restarts).filter(([value]) => value !== 'window' || window !== undefined)
      const select = h('select', { id: newId() }, ...options.map(([value, text]) => h('option', { value }, text)))
      return {
        title: texts.installTitle(version),
        content: [
          h('p', {}, document.help('POST', '/update/install')),
          h('div', { class: 'field' }, h('label', { for: select.id }, texts.restartWhen), select),
          window !== undefined && h('p', { class: 'help' }, window),
        ],
        action: texts.install,
        go: () => go(select.value),
      }
    },
  )
}

function askOlder(device: Device, go: () => void): void {
  askAbout(
    () => versionHere(device),
    version => ({
      title: texts.installOlderTitle(version),
      content: [h('p', {}, texts.olderHelp)],
      action: texts.installAnyway,
      isDangerous: true,
      go,
    }),
  )
}

function askDiscard({ update }: Device, go: () => void): void {
  askAbout(
    () => update.value?.other.version,
    version => {
      const action = texts.discardVersion(version)
      return {
        title: `${action}?`,
        content: [h('p', {}, texts.discardHelp(update.value?.running.version))],
        action,
        go,
      }
    },
  )
}

/** Returns the version of the bundle that can be installed. */
function versionHere({ update }: Device): string | undefined {
  return update.value?.bundle?.version
}

/** Reports whether no step is in progress, and no bundle is ready. */
function isAtRest(update: UpdateState | undefined): boolean {
  return update?.state === 'idle' || update?.state === 'failed'
}

function sendingText({ bundle }: UpdateState): string {
  return bundle && bundle.receivedBytes === bundle.bytes ? texts.verifying : texts.sending
}

function partText({ receivedBytes, bytes }: Part): string {
  const file = kept.getItem(FILE) ?? ''
  // The part may be of a file that somebody else is sending.
  const name = file.startsWith(`${bytes} `) ? file.slice(`${bytes} `.length) : ''
  return texts.partThere(bytesText(receivedBytes), bytesText(bytes), name)
}

function statusText({ state, bundle, running, other, waitingFor }: UpdateState, system: JsonObject): string {
  const isInstalled = state === 'installed'
  const version = (isInstalled ? other : bundle)?.version
  const isSame = state === 'downloaded' && version === running.version
  const text = isSame ? texts.sameVersion(version) : texts.activities[state](version)
  const waits = waitingFor ? ` ${texts.waitsFor[waitingFor](windowText(system))}` : ''
  return `${text}${waits}${isInstalled ? ` ${texts.restartTakes}` : ''}`
}

/** Returns the progress and its total; the total is 0 if no progress is to be shown. */
function progressOf({ state, bundle, percent = 0 }: UpdateState): [number, number] {
  if (state === 'installing') return [percent, 100]
  const isComing = state === 'receiving' || state === 'downloading'
  return [bundle?.receivedBytes ?? 0, isComing ? (bundle?.bytes ?? 0) : 0]
}

/** Shows or hides buttons. If the focused button is hidden, the heading gets the focus. */
export function reveal(
  heading: HTMLElement,
  buttons: readonly (readonly [button: HTMLElement, isShown: boolean])[],
): void {
  for (const [button, isShown] of buttons) {
    if (!isShown && button === document.activeElement) heading.focus()
    button.hidden = !isShown
  }
}
