import { bytesText } from '../bytes.ts'
import { messageOf } from '../client.ts'
import type { Device } from '../device.ts'
import { foreign, h, say } from '../dom.ts'
import { isObject, type Json, type JsonObject } from '../json.ts'
import { labelOf, valueText } from '../labels.ts'
import { shown } from '../name.ts'
import * as texts from '../texts.ts'
import { durationText, momentText } from '../time.ts'
import type { View } from '../view.ts'
import { keepFresh } from '../while-shown.ts'
import { operationsCard } from './operations.ts'
import { signalText } from './wifi.ts'

/** The device's health, its properties, and its operations. */
export function statusView(device: Device): View {
  const { grants, document } = device
  const facts = h('dl', { class: 'facts' })
  const problem = h('p', { class: 'error', hidden: true })
  const hasStatus = grants.readsSystem && document.has('GET', '/status')

  const refresh = async () => {
    try {
      const status = await device.client.read<JsonObject>('/status')
      facts.replaceChildren(...Object.entries(status).map(row))
      say(problem, '')
    } catch (error) {
      say(problem, messageOf(error))
    }
  }
  const element = h(
    'div',
    { class: 'columns' },
    h('h2', {}, texts.statusView),
    hasStatus && h('section', { class: 'card' }, h('h3', {}, texts.now), facts, problem),
    ...factCards(device),
    operationsCard(device),
  )
  return hasStatus ? { element, shown: () => keepFresh(element, refresh) } : { element }
}

/** Creates cards for the read-only settings, which describe the device. */
function factCards({ system, document }: Device): readonly HTMLElement[] {
  return Object.entries(document.system.properties ?? {})
    .filter(([name, schema]) => schema.readOnly && name in system.value)
    .map(([name, schema]) => {
      const facts = h('dl', { class: 'facts' })
      system.follow(system => {
        const value = system[name] ?? null
        const parts = isObject(value) ? Object.entries(value) : [[name, value] as const]
        facts.replaceChildren(...parts.map(([part, value]) => fact(labelOf(part), valueText(part, value))))
      })
      return h(
        'section',
        { class: 'card' },
        h('h3', {}, labelOf(name)),
        h('p', { class: 'help' }, schema.description),
        facts,
      )
    })
}

function row([name, value]: readonly [string, Json]): HTMLElement {
  const label = Object.hasOwn(texts.statusNames, name) ? (texts.statusNames[name] ?? name) : labelOf(name)
  if (isObject(value) && typeof value.totalBytes === 'number' && typeof value.availableBytes === 'number') {
    const used = value.totalBytes - value.availableBytes
    const fault = value.readOnly ? texts.storageReadOnly : value.temporary && texts.storageTemporary
    const shown = fault || texts.usedOf(bytesText(used), bytesText(value.totalBytes))
    return fact(label, shown, h('meter', { value: used / value.totalBytes, high: 0.9, 'aria-label': label }))
  }
  if (isObject(value) && typeof value.ssid === 'string') {
    const signal = typeof value.signalDbm === 'number' ? [signalText(value.signalDbm)] : []
    return fact(label, [shown(value.ssid), ...signal].join(', '))
  }
  if (isObject(value) && typeof value.expiresAt === 'string')
    return fact(label, texts.validUntil(momentText(value.expiresAt)))
  return fact(label, statusText(name, value))
}

function statusText(name: string, value: Json): string {
  if (name === 'airplayReady' && value === false) return texts.airplayNotReady
  if (name.endsWith('At')) return momentText(String(value))
  if (name.endsWith('S') && typeof value === 'number') return durationText(value)
  if (name.endsWith('C') && typeof value === 'number') return `${Math.round(value)} °C`
  if (Array.isArray(value)) return value.map(part => (typeof part === 'number' ? part.toFixed(2) : part)).join(' · ')
  return valueText(name, value)
}

export function fact(label: string, value: string, more?: HTMLElement): HTMLElement {
  return h('div', {}, h('dt', {}, label), h('dd', {}, foreign(value), more))
}
