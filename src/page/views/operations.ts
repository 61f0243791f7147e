import { messageOf } from '../client.ts'
import type { Device } from '../device.ts'
import { ask } from '../dialog.ts'
import { button, h } from '../dom.ts'
import { texts } from '../texts.ts'
import { announce } from '../toast.ts'

/** Those that a wrong click must not start; the others only need a confirmation. */
const DANGEROUS = ['factory-reset']
const HARMLESS = ['identify']
const FOR_THE_KEY = ['factory-reset']

/** The device's operations that the credential may start. */
export function operationsCard(device: Device): HTMLElement | undefined {
  const { grants, document } = device
  const operations = Object.entries(texts.operationNames).filter(
    ([name]) =>
      document.has('POST', `/operations/${name}`) &&
      grants.changesSystem &&
      (grants.isApiKey || !FOR_THE_KEY.includes(name)),
  )
  if (operations.length === 0) return undefined
  const rows = operations.map(([name, [title, help]]) => {
    const kind = DANGEROUS.includes(name) ? 'danger' : ''
    const start = button(`${title}…`, () => confirmed(device, name, title, help), kind)
    if (HARMLESS.includes(name)) start.textContent = title
    return h('li', {}, h('p', {}, help), start)
  })
  return h('section', { class: 'card' }, h('h3', {}, texts.operations), h('ul', { class: 'operations' }, ...rows))
}

function confirmed(device: Device, name: string, title: string, help: string): void {
  const go = async () => {
    try {
      await device.client.send('POST', `/operations/${name}`)
      announce(texts.started(title))
    } catch (error) {
      announce(messageOf(error))
    }
  }
  if (HARMLESS.includes(name)) return void go()
  const isDangerous = DANGEROUS.includes(name)
  ask({
    title: texts.confirmTitles[name]?.(device.name) ?? title,
    content: [h('p', {}, help), isDangerous && h('p', {}, texts.resetWarning)],
    action: title,
    isDangerous,
    ...(isDangerous && { typed: device.name }),
    go,
  })
}
