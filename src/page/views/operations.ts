import { messageOf } from '../client.ts'
import type { Device } from '../device.ts'
import { ask, type Question } from '../dialog.ts'
import { button, checkbox, h } from '../dom.ts'
import { holdsOneOf } from '../grants.ts'
import type { DeviceOperation } from '../schema.ts'
import * as texts from '../texts.ts'
import { announce } from '../toast.ts'

type Started = Pick<DeviceOperation, 'path' | 'title' | 'help'> & Partial<DeviceOperation>

/** Creates the card with the operations that the credential may start; undefined if there are none. */
export function operationsCard(device: Device): HTMLElement | undefined {
  const operations = device.document.operations.filter(({ needs }) => holdsOneOf(needs, device.grants))
  if (operations.length === 0) return undefined
  const rows = operations.map(operation => {
    const { title, help, confirm, destructive } = operation
    const begin = () => (confirm ? confirmed(device, operation) : void start(device, operation))
    return h('li', {}, h('p', {}, help), button(confirm ? `${title}…` : title, begin, destructive ? 'danger' : ''))
  })
  return h('section', { class: 'card' }, h('h3', {}, texts.operations), h('ul', { class: 'operations' }, ...rows))
}

/** Starts an operation after the user confirms it. */
export function confirmed(device: Device, operation: Started): void {
  ask(questionOn(device, operation))
}

/** Returns the question whether to start an operation. */
export function questionOn(device: Device, operation: Started): Question {
  const { title, help, destructive = false, options = [] } = operation
  const boxes = options.map(({ query, help }) => ({ query, ...checkbox(help) }))
  const chosen = () => boxes.filter(({ input }) => input.checked).map(({ query }) => query)
  return {
    title: texts.confirmOperation(title, device.name),
    content: [h('p', {}, help), ...boxes.map(({ row }) => row)],
    action: title,
    isDangerous: destructive,
    ...(destructive && { typed: device.name }),
    go: () => start(device, operation, chosen()),
  }
}

async function start({ client }: Device, { path, title }: Started, options: readonly string[] = []): Promise<void> {
  try {
    await client.send('POST', options.length === 0 ? path : `${path}?${options.join('&')}`)
    announce(texts.started(title))
  } catch (error) {
    announce(messageOf(error))
  }
}
