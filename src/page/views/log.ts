import { messageOf } from '../client.ts'
import type { Device } from '../device.ts'
import { button, foreign, h, newId } from '../dom.ts'
import { download } from '../download.ts'
import * as texts from '../texts.ts'
import { momentText } from '../time.ts'
import type { View } from '../view.ts'
import { whileShown } from '../while-shown.ts'

interface LogLine {
  readonly time: string
  readonly unit: string
  readonly priority: number
  readonly message: string
}

const LINES = [100, 200, 500, 2_000]
const EVERYTHING = 7
/** Milliseconds between requests while the log is followed. */
const FOLLOW_MS = 3_000

/** The journal of the device, with filters, a search and a download. */
export function logView(device: Device): View {
  const units = device.document.parameter('GET', '/logs', 'unit').enum ?? []
  const unit = select([['', texts.allUnits], ...units.map(unit => [String(unit), String(unit)] as const)], '')
  const priority = select(
    texts.priorities.map((name, at) => [String(at), name]),
    String(EVERYTHING),
  )
  const count = select(
    LINES.map(lines => [String(lines), String(lines)]),
    '200',
  )
  const search = h('input', { type: 'search', id: newId() })
  const follow = h('input', { type: 'checkbox', role: 'switch', id: newId() })
  const table = h('ol', { class: 'log' })
  const state = h('p', { class: 'help', role: 'status' })
  let lines: readonly LogLine[] = []
  /** The lines in the table, as JSON. */
  let shown = ''
  /** Counts the requests: only the latest may show its answer. */
  let reads = 0

  const path = () => {
    const query = new URLSearchParams({ lines: count.value, priority: priority.value })
    if (unit.value !== '') query.set('unit', unit.value)
    return `/logs?${query}`
  }
  const say = (text: string) => {
    // A screen reader would announce the same text again.
    if (state.textContent !== text) state.textContent = text
  }
  const show = () => {
    const wanted = search.value.toLowerCase()
    const found = lines.filter(({ unit, message }) => `${unit} ${message}`.toLowerCase().includes(wanted))
    const { timeZone } = new Intl.DateTimeFormat().resolvedOptions()
    say(found.length === 0 ? texts.noLines : texts.logLines(found.length, timeZone))
    // Unchanged lines are not replaced, so that selected text stays selected.
    const next = JSON.stringify(found)
    if (next === shown) return
    shown = next
    table.replaceChildren(...found.toReversed().map(lineItem))
  }
  const read = async () => {
    const attempt = ++reads
    try {
      const found = await device.client.read<readonly LogLine[]>(path(), { headers: { Accept: 'application/json' } })
      if (attempt !== reads) return
      lines = found
      show()
    } catch (error) {
      if (attempt === reads) say(messageOf(error))
    }
  }
  const save = async () => {
    try {
      const response = await device.client.send('GET', path(), { headers: { Accept: 'text/plain' } })
      download(await response.blob(), `${device.name}.log`)
    } catch (error) {
      say(messageOf(error))
    }
  }
  for (const filter of [unit, priority, count]) filter.addEventListener('change', read)
  search.addEventListener('input', show)
  const labelled = (label: string, input: HTMLElement) =>
    h('div', { class: 'field' }, h('label', { for: input.id }, label), input)
  const element = h(
    'div',
    {},
    h('h2', {}, texts.logs),
    h(
      'div',
      { class: 'filters' },
      units.length > 0 && labelled(texts.unit, unit),
      labelled(texts.priority, priority),
      labelled(texts.lines, count),
      labelled(texts.search, search),
      h('div', { class: 'field boolean' }, h('label', { for: follow.id }, texts.follow), follow),
      h('div', { class: 'actions' }, button(texts.refresh, read), button(texts.download, save)),
    ),
    state,
    table,
  )
  const begin = () => {
    read()
    whileShown(element, FOLLOW_MS, () => (follow.checked ? read() : undefined))
  }
  return { element, shown: begin }
}

function select(options: readonly (readonly [value: string, text: string])[], value: string): HTMLSelectElement {
  const made = h('select', { id: newId() }, ...options.map(([value, text]) => h('option', { value }, text)))
  made.value = value
  return made
}

function lineItem({ time, unit, priority, message }: LogLine): HTMLElement {
  const head = h(
    'span',
    { class: 'help' },
    `${momentText(time)} · `,
    foreign(unit),
    ` · ${texts.priorities[priority] ?? ''}`,
  )
  return h('li', { class: priority <= 3 ? 'bad' : priority === 4 ? 'warning' : '' }, head, foreign(message))
}
