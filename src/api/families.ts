import type { Certificate } from '../../hal/os/certificate.ts'
import type { Clock } from '../clock.ts'
import type { Readers } from '../events/readers.ts'
import type { Topic } from '../events/topic.ts'
import type { Operation } from '../http/operation.ts'
import type { HttpServer } from '../http/server.ts'
import type { Limits } from '../limits.ts'
import { Counts } from '../metrics/counts.ts'
import type { Family, Labels, Sample } from '../metrics/exposition.ts'
import { protocolLabel } from '../sessions/session.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { SystemStore } from '../system/store.ts'
import type { Tally } from '../system/tally.ts'
import type { Outcome } from '../update/state.ts'
import type { readStatus } from './status.ts'

/** Seconds by which the computed start may drift before it counts as moved by a change of the clock. */
const STEP_S = 2

/** Returns the values of `/status`, and the identity of the device. Values that the device cannot determine are absent. */
export function deviceFamilies(
  configuration: Pick<SystemStore, 'value'>,
  status: Awaited<ReturnType<typeof readStatus>>,
  certificate: Certificate | undefined,
): readonly Family[] {
  const { memory, storage, load = [] } = status
  const { model = '', serial = '' } = configuration.value('hardware') ?? {}
  // Labels that an administrator sets appear in this family alone, so a new name makes only one new series.
  const labels = [
    ['name', configuration.value('deviceName') ?? ''],
    ['model', model],
    ['serial', serial],
    ['firmware', configuration.value('firmware')?.version ?? ''],
    ['groups', (configuration.value('groups') ?? []).join(',')],
  ] as const
  return [
    family('info', 'device', 'Identity of the device.', [{ labels, value: 1 }]),
    family('info', 'configuration', 'Digest of the settings that devices can have in common.', [
      { labels: [['digest', status.configurationDigest]], value: 1 },
    ]),
    gauge('device_uptime_seconds', 'Seconds since the device booted.', status.uptimeS),
    gauge('device_temperature_celsius', 'Temperature of the hottest sensor.', status.temperatureC),
    ...[1, 5, 15].map((minutes, at) => gauge(`device_load${minutes}`, `Load average, ${minutes}m.`, load[at])),
    gauge('device_memory_size_bytes', 'Total memory.', memory?.totalBytes),
    gauge('device_memory_available_bytes', 'Memory still available to programs.', memory?.availableBytes),
    gauge('device_storage_size_bytes', 'Size of the file system that holds the state directory.', storage?.totalBytes),
    gauge('device_storage_available_bytes', 'Free space on that file system.', storage?.availableBytes),
    gauge(
      'device_storage_readonly',
      'Whether that file system refuses every write (1) or not (0).',
      storage && Number(storage.readOnly),
    ),
    gauge(
      'device_storage_temporary',
      'Whether a restart loses all changes (1) or not (0).',
      storage && Number(storage.temporary),
    ),
    gauge('device_clock_set', 'Whether the device knows the time (1) or not (0).', Number(status.clockSet)),
    gauge('api_key_stored', 'Whether the API key survives a restart (1) or not (0).', Number(status.keyStored)),
    gauge(
      'airplay_ready',
      'Whether devices can connect by AirPlay (1) or not (0); absent if it is switched off.',
      status.airplayReady === undefined ? undefined : Number(status.airplayReady),
    ),
    gauge(
      'certificate_expiry_timestamp_seconds',
      'When the TLS certificate expires, in seconds since 1970.',
      certificate && certificate.to / 1000,
    ),
  ]
}

export function httpFamilies(server: HttpServer, engines: HttpServer, limits: Limits): readonly Family[] {
  const operations = [...server.operations, ...engines.operations]
  const used = operations.filter(({ duration }) => !duration.isEmpty)
  return [
    counter('http_requests', 'Requests answered, by route.', operations.flatMap(answerSamples)),
    family(
      'histogram',
      'http_request_duration_seconds',
      'Time from the head of a request to its response, without the time it was held.',
      used.map(operation => ({ labels: labelsOf(operation), value: operation.duration })),
    ),
    counter('credentials_refused', 'Requests with a refused credential, by reason.', server.refusals.samples),
    gauge('connections', 'Open connections.', server.connections),
    gauge('connections_limit', 'Maximum number of open connections.', limits.connections),
  ]
}

export function eventFamilies(topics: readonly Topic[], readers: Readers, limits: Limits): readonly Family[] {
  const by = (value: (topic: Topic) => number) =>
    topics.map(topic => ({ labels: [['topic', topic.name]] as const, value: value(topic) }))
  const { heldPolls } = readers
  return [
    gauge('streams', 'Open event streams.', readers.size - heldPolls),
    gauge('held_polls', 'Polls that wait for an event.', heldPolls),
    gauge('streams_limit', 'Maximum number of open event streams and held polls together.', limits.streams),
    counter(
      'events_appended',
      'Events, by topic.',
      by(({ log }) => log.head),
    ),
    counter(
      'events_evicted',
      'Events from which clients can no longer resume.',
      by(({ log }) => log.evicted),
    ),
    counter(
      'event_resyncs',
      'Times that a client was sent the whole state again.',
      by(({ resync }) => resync.given),
    ),
  ]
}

export function changeFamilies({ changes, undos, duration }: Tally): readonly Family[] {
  return [
    counter('changes', 'Changes of settings, by outcome.', changes.samples),
    family(
      'histogram',
      'change_duration_seconds',
      'How long changes took.',
      duration.isEmpty ? [] : [{ value: duration }],
    ),
    counter('journal_undos', 'Changes that were undone from the journal.', undos.samples),
  ]
}

export function sessionFamilies({ all, outcomes }: Sessions): readonly Family[] {
  const counts = new Counts(['protocol', 'state'])
  for (const { protocol, state } of all) counts.add([protocolLabel(protocol), state])
  return [
    family('gauge', 'sessions', 'Devices that mirror or ask to.', counts.samples),
    counter('session_outcomes', 'Sessions, by outcome.', outcomes.samples),
  ]
}

/** @param last Undefined if no update has been made yet. */
export function updateFamilies(last: Outcome | undefined): readonly Family[] {
  const samples = last ? [{ labels: [['outcome', last.outcome]] as const, value: 1 }] : []
  return [family('gauge', 'update_last_outcome', 'The outcome of the last firmware update.', samples)]
}

/** Returns a function that reads the metrics of the process each time it is called. */
export function processFamilies(version: string, clock: Clock): () => readonly Family[] {
  let startedAt = Number.NEGATIVE_INFINITY
  return () => {
    // Kept steady, so that it changes only at a restart or when the clock is set.
    const found = clock.now() / 1000 - process.uptime()
    if (Math.abs(found - startedAt) > STEP_S) startedAt = Math.round(found)
    const { user, system } = process.cpuUsage()
    const build = { labels: [['version', version] as const, ['node', process.versions.node] as const], value: 1 }
    return [
      family('info', 'build', 'The program and its version.', [build]),
      counter('process_cpu_seconds', 'CPU time, user and system.', [{ value: (user + system) / 1e6 }]),
      gauge('process_resident_memory_bytes', 'Resident memory.', process.memoryUsage.rss()),
      gauge('process_start_time_seconds', 'When the process started, in seconds since 1970.', startedAt),
    ]
  }
}

function answerSamples(operation: Operation): readonly Sample[] {
  return Array.from(operation.answers, (value, digit) => ({
    labels: [...labelsOf(operation), ['status', `${digit}xx`] as const],
    value,
  }))
}

function labelsOf({ path, method }: Operation): Labels {
  return [
    ['route', path],
    ['method', method],
  ]
}

function family(type: Family['type'], name: string, help: string, samples: readonly Sample[]): Family {
  return { name: `receiverd_${name}`, type, help, samples }
}

/** Leaves out samples that are 0: what they count has never happened. */
function counter(name: string, help: string, samples: readonly Sample[]): Family {
  return family(
    'counter',
    name,
    help,
    samples.filter(({ value }) => value !== 0),
  )
}

/** @param value Undefined if unknown. */
function gauge(name: string, help: string, value: number | undefined): Family {
  return family('gauge', name, help, value === undefined ? [] : [{ value }])
}
