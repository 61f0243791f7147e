/**
 * Home Assistant's rules for a device over MQTT, from its documentation (home-assistant.io/integrations/mqtt, sensor.mqtt,
 * binary_sensor.mqtt, button.mqtt, update.mqtt), and its templates, rendered by Jinja itself.
 */
import { execFileSync } from 'node:child_process'

export interface Component {
  readonly platform: string
  readonly unique_id?: string
  readonly name?: string
  readonly state_topic?: string
  readonly command_topic?: string
  readonly payload_press?: string
  readonly value_template?: string
  readonly device_class?: string
  readonly options?: readonly string[]
}

export interface Discovery {
  readonly device: Readonly<Record<string, unknown>> & {
    readonly identifiers: readonly string[]
    readonly name: string
  }
  readonly origin: { readonly name: string }
  readonly availability: readonly { readonly topic: string }[]
  readonly components: Readonly<Record<string, Component>>
}

const TOPIC = /^homeassistant\/device\/(?:[a-zA-Z0-9_-]+\/)?[a-zA-Z0-9_-]+\/config$/
/** With any other member at the top, the whole device is refused. */
const AT_TOP = ['device', 'origin', 'components', 'availability', 'availability_mode', 'qos']
const OF_DEVICE = [
  'identifiers',
  'connections',
  'configuration_url',
  'manufacturer',
  'model',
  'model_id',
  'name',
  'hw_version',
  'sw_version',
  'serial_number',
  'suggested_area',
  'via_device',
]
const COMMON = ['platform', 'unique_id', 'name', 'icon', 'entity_category', 'device_class']
const STATEFUL = [...COMMON, 'state_topic', 'value_template']
const OF_COMPONENT: Readonly<
  Record<string, { readonly known: readonly string[]; readonly required: readonly string[] }>
> = {
  sensor: { known: [...STATEFUL, 'options', 'state_class', 'unit_of_measurement'], required: ['state_topic'] },
  binary_sensor: { known: STATEFUL, required: ['state_topic'] },
  update: { known: STATEFUL, required: [] },
  button: { known: [...COMMON, 'command_topic', 'payload_press'], required: ['command_topic'] },
}
const CLASSES: Readonly<Record<string, readonly string[]>> = {
  sensor: ['enum', 'temperature'],
  binary_sensor: ['problem'],
  update: ['firmware'],
  button: ['identify', 'restart', 'update'],
}
const PUBLISHED = /^[^+#\0]+$/

/** What Home Assistant would complain about. */
export function problemsOf(topic: string, discovery: Discovery): readonly string[] {
  const problems: string[] = []
  const claim = (isTrue: boolean, problem: string) => void (isTrue || problems.push(problem))
  const onlyKnown = (value: object, known: readonly string[], where: string) => {
    for (const name of Object.keys(value)) claim(known.includes(name), `${where}: ${name} is not known`)
  }
  claim(TOPIC.test(topic), `${topic} is not looked at`)
  onlyKnown(discovery, AT_TOP, 'at the top')
  onlyKnown(discovery.device, OF_DEVICE, 'device')
  claim(discovery.device.identifiers.length > 0, 'the device has no identifier')
  claim(typeof discovery.origin.name === 'string', 'the origin has no name')
  claim(discovery.availability.length > 0, 'no availability')
  for (const { topic } of discovery.availability) claim(PUBLISHED.test(topic), `availability: ${topic}`)
  const url = discovery.device.configuration_url
  claim(url === undefined || /^https?:\/\/[^/]+/.test(String(url)), `configuration_url: ${url}`)
  const ids = new Set<string>()
  for (const [key, component] of Object.entries(discovery.components)) {
    const { platform, ...config } = component
    const rules = OF_COMPONENT[platform]
    claim(rules !== undefined, `${key}: there is no platform ${platform}`)
    // A component without any configuration is removed.
    if (!rules || Object.keys(config).length === 0) continue
    onlyKnown(component, rules.known, key)
    for (const name of ['unique_id', ...rules.required]) claim(name in component, `${key}: ${name} is required`)
    claim(!ids.has(component.unique_id ?? ''), `${key}: its unique_id is not unique`)
    ids.add(component.unique_id ?? '')
    const { device_class: kind, options, state_topic = 'x', command_topic = 'x' } = component
    claim(kind === undefined || CLASSES[platform]?.includes(kind) === true, `${key}: ${platform} has no class ${kind}`)
    claim((kind === 'enum') === (options !== undefined), `${key}: options belong to the class enum`)
    claim(PUBLISHED.test(state_topic) && PUBLISHED.test(command_topic), `${key}: a topic has wildcards`)
  }
  return problems
}

/** Debian's Python, which has Debian's packages. */
const PYTHON = '/usr/bin/python3'
const RENDER = `
import json, sys
from jinja2.sandbox import ImmutableSandboxedEnvironment
environment = ImmutableSandboxedEnvironment()
print(json.dumps([environment.from_string(template).render(value=text, value_json=json.loads(text))
                  for template, text in json.load(sys.stdin)]))`

/** The values of the entities. @param text Returns the message on the topic of a component. */
export function shownBy(
  { components }: Discovery,
  text: (topic: string) => string | undefined,
): Readonly<Record<string, string>> {
  const keys: string[] = []
  const pairs: string[][] = []
  for (const [key, { state_topic = '', value_template = '{{ value }}' }] of Object.entries(components)) {
    if (state_topic === '') continue
    keys.push(key)
    pairs.push([value_template, text(state_topic) ?? 'null'])
  }
  const options = { input: JSON.stringify(pairs), encoding: 'utf8' } as const
  const shown = JSON.parse(execFileSync(PYTHON, ['-c', RENDER], options)) as readonly string[]
  return Object.fromEntries(keys.map((key, index) => [key, shown[index] ?? '']))
}
