import { MAX_FILE_BYTES, type Preview, previewOf, settingsFile, settingsIn } from '../../settings-file/settings-file.ts'
import { jsonOf, messageOf } from '../client.ts'
import type { Device } from '../device.ts'
import { ask } from '../dialog.ts'
import { button, type Child, checkbox, foreign, h, problemLine, say } from '../dom.ts'
import { download } from '../download.ts'
import { isEqual, type Json } from '../json.ts'
import { labelOf, valueText } from '../labels.ts'
import * as texts from '../texts.ts'
import { announce } from '../toast.ts'
import { sendPatch } from '../trial/send.ts'

/** The most characters shown of a name from a file. */
const MAX_NAME = 64

/** Creates the card that saves the settings to a file, and loads them from one. */
export function settingsFileCard(device: Device): HTMLElement {
  const { system: schema } = device.document
  const withIdentity = checkbox(texts.withIdentity)
  const problem = problemLine()
  const save = () => {
    const text = settingsFile(schema, device.system.value, withIdentity.input.checked)
    download(new Blob([text], { type: 'application/json' }), `${device.name}-settings.json`)
  }
  const load = async (file: File | undefined) => {
    if (!file) return
    say(problem, '')
    try {
      const settings = file.size > MAX_FILE_BYTES ? 'foreign' : settingsIn(await file.text())
      if (typeof settings === 'string') return say(problem, texts.notSettings[settings])
      const preview = () =>
        previewOf(settings, device.system.value, async body =>
          jsonOf(await device.client.send('PATCH', '/system?validateOnly=true', { body })),
        )
      show(device, preview, await preview(), problem)
    } catch (error) {
      say(problem, messageOf(error))
    }
  }
  const chooser = h('input', {
    type: 'file',
    accept: '.json,application/json',
    hidden: true,
    'aria-label': texts.loadSettings,
    change: async () => {
      await load(chooser.files?.[0])
      // Allows choosing the same file again.
      chooser.value = ''
    },
  })
  return h(
    'section',
    { class: 'card' },
    h('h3', { tabindex: -1 }, texts.settingsFile),
    h('p', { class: 'help' }, texts.settingsFileHelp),
    withIdentity.row,
    problem,
    chooser,
    h(
      'div',
      { class: 'actions' },
      device.grants.changesSystem && button(`${texts.loadSettings}…`, () => chooser.click()),
      button(texts.saveSettings, save),
    ),
  )
}

/**
 * Shows the changes that loading would make, and asks for confirmation.
 * @param preview Computes them anew: others may change settings meanwhile, and are not to be overruled unseen.
 */
function show(device: Device, preview: () => Promise<Preview>, now: Preview, problem: HTMLElement): void {
  const { patch, differences, leftOut } = now
  const { system: schema } = device.document
  const row = (path: readonly string[], ...value: readonly Child[]) =>
    h('div', {}, h('dt', {}, foreign(labelAt(path))), h('dd', {}, h('span', {}, ...value)))
  const changes = differences.map(({ path, before, after }) => {
    const shown = (value: Json | undefined) => foreign(valueText(path.at(-1) ?? '', value))
    return row(path, shown(before), ' → ', shown(after))
  })
  const content = [
    changes.length === 0 && h('p', {}, texts.nothingToLoad),
    h('dl', { class: 'facts' }, ...changes),
    leftOut.length > 0 && h('p', {}, texts.leftOut),
    h('dl', { class: 'facts help' }, ...leftOut.map(({ path, reason }) => row(path, foreign(reason)))),
  ]
  const go = async () => {
    try {
      const next = await preview()
      if (!isEqual(next, now)) return show(device, preview, next, problem)
      announce(await sendPatch(device, { settings: schema.properties ?? {}, body: patch }))
    } catch (error) {
      say(problem, messageOf(error))
    }
  }
  ask({
    title: texts.loadSettings,
    content,
    ...(changes.length > 0 && { action: leftOut.length > 0 ? texts.loadRest : texts.loadThese }),
    go,
  })
}

/** Returns the label of a path. Names that are not plain words, such as those of networks, stay as they are. */
function labelAt(path: readonly string[]): string {
  return path.map(name => (/^[a-z]+$/i.test(name) ? labelOf(name) : name).slice(0, MAX_NAME)).join(', ')
}
