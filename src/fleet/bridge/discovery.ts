import { createHash } from 'node:crypto'
import type { JsonObject } from '../../json.ts'
import { addressOf } from '../access.ts'
import type { FleetDevice } from '../fleet-file.ts'
import { type BridgeSettings, COMMANDS, type CommandName } from './settings.ts'
import { type DeviceState, objectOf, textOf } from './state.ts'

/** Home Assistant knows no other characters in an id. */
const NOT_IN_IDS = /[^A-Za-z0-9_-]/g
const DIGEST_DIGITS = 8
/** The name of each button, and its other properties. */
const BUTTONS: Readonly<Record<CommandName, JsonObject>> = {
  identify: { name: 'Identify', device_class: 'identify', entity_category: 'diagnostic' },
  'restart-receiver': { name: 'Restart receiver', device_class: 'restart', entity_category: 'config' },
  admit: { name: 'Admit', icon: 'mdi:account-check' },
  deny: { name: 'Deny', icon: 'mdi:account-cancel' },
  end: { name: 'End mirroring', icon: 'mdi:stop-circle-outline' },
}

/** The name of the bridge in topics and IDs. */
export function nodeOf({ prefix }: Pick<BridgeSettings, 'prefix'>): string {
  return prefix.replaceAll('/', '__')
}

/** The name of a device as Home Assistant accepts it in an ID: no other name gives the same ID. */
export function objectIdOf(name: string): string {
  const id = name.replace(NOT_IN_IDS, '-')
  if (id === name) return id
  return `${id}-${createHash('sha256').update(name).digest('hex').slice(0, DIGEST_DIGITS)}`
}

/** The topic on which Home Assistant looks for a device. @param objectId `+` for all devices of this bridge. */
export function discoveryTopicOf(settings: BridgeSettings, objectId: string): string {
  return `${settings.discovery}/device/${nodeOf(settings)}/${objectId}/config`
}

/**
 * A device and what it has, in Home Assistant's words (home-assistant.io/integrations/mqtt, device discovery payload). Home
 * Assistant removes a component of which only the platform is given.
 *
 * @param version The version of this program.
 * @returns an empty text until it is known what the device has: a component that is removed and comes back would lose its
 * owner's settings.
 */
export function discoveryOf(
  settings: BridgeSettings,
  { name, endpoint, proof }: FleetDevice,
  { settings: configuration, sessions, status, update }: DeviceState,
  version: string,
): string {
  if ([configuration, sessions, status, update].includes('unknown')) return ''
  const own = `${settings.prefix}/${name}`
  const id = `${nodeOf(settings)}_${objectIdOf(name)}`
  const { deviceName, hardware, firmware } = typeof configuration === 'string' ? {} : configuration
  const { model, serial } = objectOf(hardware)
  const running = typeof update === 'string' ? '' : textOf(update.running)
  const software = running || textOf(objectOf(firmware).version)
  const components: Record<string, JsonObject> = {}
  const add = (key: string, platform: string, isThere: boolean, config: JsonObject) => {
    components[key] = { platform, ...(isThere && { unique_id: `${id}_${key}`, ...config }) }
  }
  const addSensor = (key: string, isThere: boolean, topic: string, template: string, config: JsonObject) =>
    add(key, 'sensor', isThere, {
      state_topic: `${own}/${topic}`,
      value_template: `{{ ${ifThere(template)} }}`,
      ...config,
    })
  const addProblem = (key: string, isThere: boolean, topic: string, condition: string, config: JsonObject) => {
    const value_template = `{{ ${ifThere(`'ON' if ${condition} else 'OFF'`)} }}`
    add(key, 'binary_sensor', isThere, { state_topic: `${own}/${topic}`, value_template, ...config })
  }

  const hasSessions = sessions !== 'absent'
  addSensor('session', hasSessions, 'sessions', 'value_json.state', {
    name: 'Session',
    device_class: 'enum',
    options: ['idle', 'pending', 'mirroring'],
    icon: 'mdi:cast-connected',
  })
  addSensor('mirroring', hasSessions, 'sessions', 'value_json.mirroring', { name: 'Mirroring', icon: 'mdi:cast' })
  addSensor('waiting', hasSessions, 'sessions', 'value_json.waiting', {
    name: 'Waiting',
    icon: 'mdi:account-clock',
  })
  addProblem('asking', hasSessions, 'sessions', 'value_json.waiting is not none', {
    name: 'Somebody waits',
    icon: 'mdi:account-question',
  })
  const hasStatus = status !== 'absent'
  const diagnostic = { entity_category: 'diagnostic' }
  if (typeof status === 'object' && 'temperatureC' in status)
    addSensor('temperature', true, 'status', 'value_json.temperatureC', {
      name: 'Temperature',
      device_class: 'temperature',
      state_class: 'measurement',
      unit_of_measurement: '°C',
      ...diagnostic,
    })
  const problem = { device_class: 'problem', ...diagnostic }
  addProblem('storage', hasStatus, 'status', 'value_json.problems.storage', { name: 'Storage', ...problem })
  addProblem('clock', hasStatus, 'status', 'value_json.problems.clock', { name: 'Clock', ...problem })
  const hasUpdate = update !== 'absent'
  add('update', 'update', hasUpdate, {
    name: 'Firmware',
    state_topic: `${own}/update`,
    device_class: 'firmware',
    ...diagnostic,
  })
  addSensor('update_state', hasUpdate && hasStatus, 'status', 'value_json.firmware.state', {
    name: 'Update',
    icon: 'mdi:update',
    ...diagnostic,
  })
  for (const command of Object.keys(COMMANDS) as CommandName[])
    add(command, 'button', settings.allow.includes(command), {
      command_topic: `${own}/command`,
      payload_press: command,
      ...BUTTONS[command],
    })

  return JSON.stringify({
    device: {
      identifiers: [id],
      name: textOf(deviceName) || name,
      ...(textOf(model) !== '' && { model: textOf(model) }),
      ...(textOf(serial) !== '' && { serial_number: textOf(serial) }),
      ...(software !== '' && { sw_version: software }),
      ...(endpoint && {
        configuration_url: `${addressOf(endpoint, proof)}/`,
      }),
    },
    origin: { name: 'receiverd-fleet', sw_version: version },
    availability: [{ topic: `${settings.prefix}/bridge` }, { topic: `${own}/availability` }],
    availability_mode: 'all',
    qos: 1,
    components,
  })
}

/** A message that is removed arrives as an empty one, which is not JSON. Home Assistant reads None as unknown. */
function ifThere(template: string): string {
  return `(${template}) if value_json is defined else none`
}
