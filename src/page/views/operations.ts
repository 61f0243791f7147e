import { messageOf } from '../client.ts'
import type { Device } from '../device.ts'
import { ask } from '../dialog.ts'
import { button, h } from '../dom.ts'
import { holdsOneOf } from '../grants.ts'
import type { DeviceOperation } from '../schema.ts'
import { texts } from '../texts.ts'
import { announce } from '../toast.ts'

/** The device's operations that the credential may start. */
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

function confirmed(device: Device, operation: DeviceOperation): void {
  const { title, help, destructive } = operation
  ask({
    title: texts.confirmOperation(title, device.name),
    content: [h('p', {}, help)],
    action: title,
    isDangerous: destructive,
    ...(destructive && { typed: device.name }),
    go: () => start(device, operation),
  })
}

async function start({ client }: Device, { path, title }: DeviceOperation): Promise<void> {
  try {
    await client.send('POST', path)
    announce(texts.started(title))
  } catch (error) {
    announce(messageOf(error))
  }
}
