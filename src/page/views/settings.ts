import type { Device } from '../device.ts'
import { h } from '../dom.ts'
import { card } from '../form/card.ts'
import { type Field, fieldFor } from '../form/field.ts'
import { group } from '../form/group.ts'
import { isObject, type Json, type JsonObject } from '../json.ts'
import { labelOf } from '../labels.ts'
import type { Schema } from '../schema.ts'
import * as texts from '../texts.ts'
import type { View } from '../view.ts'
import { settingsFileCard } from './settings-file.ts'
import { withNetworks } from './wifi.ts'

type Settings = Readonly<Record<string, Schema>>

/** All settings of the device, generated from the schema of the configuration. Only Wi-Fi has code of its own. */
export function settingsView(device: Device): View {
  const cards = h('div', { class: 'cards' })
  const index = h('ul', {})
  const shown = new Set<string>()

  /** @param name Of the setting without which the card is hidden: the device may lose it. */
  const add = (title: string, form: HTMLElement, name?: string) => {
    cards.append(form)
    const heading = form.querySelector('h3')
    const jump = (event: Event) => {
      event.preventDefault()
      heading?.scrollIntoView()
      heading?.focus({ preventScroll: true })
    }
    const item = h('li', {}, h('a', { href: '#settings', click: jump }, title))
    index.append(item)
    if (name !== undefined)
      device.system.follow(system => {
        form.hidden = item.hidden = !(name in system)
      })
  }
  // Hardware may appear while the page is open.
  device.system.follow(system => {
    const settings = Object.entries(device.document.system.properties ?? {}).filter(
      ([name, schema]) => name in system && !schema.readOnly && !shown.has(name),
    )
    for (const [name] of settings) shown.add(name)
    const simple = settings.filter(([name]) => !isObject(system[name]))
    if (simple.length > 0) add(texts.general, simpleCard(device, Object.fromEntries(simple)))
    for (const [name, schema] of settings)
      if (isObject(system[name])) add(labelOf(name), objectCard(device, name, schema), name)
  })
  add(texts.settingsFile, settingsFileCard(device))
  return {
    element: h(
      'div',
      { class: 'settings' },
      h('h2', {}, texts.settings),
      !device.grants.changesSystem && h('p', { class: 'hint' }, texts.readOnlySettings),
      h('nav', { class: 'index', 'aria-label': texts.onPage }, index),
      cards,
    ),
  }
}

/** Creates the card for all settings that are a single value. */
function simpleCard(device: Device, settings: Settings): HTMLFormElement {
  const field = group(optionsFor(device, [], { properties: settings }, device.system.value))
  device.system.follow(field.update)
  const patch = () => field.patch() as JsonObject | undefined
  return card({ device, title: texts.general, help: texts.generalHelp, field, settings, patch })
}

/** Creates the card for a setting that is an object. */
function objectCard(device: Device, name: string, schema: Schema): HTMLFormElement {
  const isWifi = name === 'wifi'
  const options = optionsFor(
    device,
    [name],
    isWifi ? without(schema, 'networks') : schema,
    device.system.value[name] ?? null,
  )
  const isObject = schema.properties !== undefined || typeof schema.additionalProperties === 'object'
  const plain: Field = isObject ? group(options) : fieldFor(options)
  const field = isWifi ? withNetworks(device, schema, plain) : plain
  device.system.follow(({ [name]: value }) => {
    if (value === undefined) field.reset()
    else field.update(value)
  })
  const patch = () => {
    const part = field.patch()
    return part === undefined ? undefined : { [name]: part }
  }
  return card({
    device,
    title: labelOf(name),
    help: schema.description,
    field,
    settings: { [name]: schema },
    patch,
  })
}

function without(schema: Schema, member: string): Schema {
  const { [member]: _, ...properties } = schema.properties ?? {}
  return { ...schema, properties }
}

function optionsFor(device: Device, path: readonly string[], schema: Schema, value: Json) {
  const { grants, choices, system } = device
  return { path, label: labelOf(path.at(-1) ?? ''), schema, value, isReadOnly: !grants.changesSystem, choices, system }
}
