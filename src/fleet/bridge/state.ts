import { isObject, type JsonObject, type JsonValue } from '../../json.ts'
import { printable } from '../../log.ts'

/** A resource of a device: not known yet, missing or denied to us, or its value. */
export type Shown<T> = 'unknown' | 'absent' | T

export interface SessionShown {
  readonly id: string
  readonly protocol: string
  readonly state: string
  readonly name: string
  readonly model: string
  readonly since: string
}

/** The known state of a device. */
export interface DeviceState {
  readonly isOnline: boolean
  /** Its configuration. */
  readonly settings: Shown<JsonObject>
  /** The oldest first. */
  readonly sessions: Shown<readonly SessionShown[]>
  /** Members of `GET /status` that do not change all the time. */
  readonly status: Shown<JsonObject>
  /** Members of `GET /update`. */
  readonly update: Shown<JsonObject>
}

export const NOTHING_KNOWN: DeviceState = {
  isOnline: false,
  settings: 'unknown',
  sessions: 'unknown',
  status: 'unknown',
  update: 'unknown',
}

/** The most that a device lists. */
const MAX_SESSIONS = 64
/** Limit on a text in characters: more than the API sends, and fewer than the 255 that Home Assistant accepts. */
const MAX_TEXT = 200
/** Settings that are not published: the network of the devices is nobody's business on a broker. */
const UNSHOWN = ['network', 'wifi']
/** States in which an update is being carried out, and the device should not be switched off. */
const IN_PROGRESS = ['installing', 'restarting']
/** States in which the version of the bundle is one that the device can get. */
const HAS_BUNDLE = ['downloaded', 'installing', 'installed', 'restarting']

/** Sessions of a list that a device sent. */
export function sessionsIn(list: JsonValue | undefined): readonly SessionShown[] {
  return (Array.isArray(list) ? list : [])
    .slice(0, MAX_SESSIONS)
    .filter(isObject)
    .map(session => ({
      id: textOf(session.id),
      protocol: textOf(session.protocol),
      state: textOf(session.state),
      name: textOf(session.name),
      model: textOf(session.model),
      since: textOf(session.since),
    }))
}

/** The members of `GET /status` that are shown. */
export function statusIn(status: JsonObject): JsonObject {
  const { version, temperatureC, clockSet, storage, keyStored } = status
  const { readOnly, temporary } = objectOf(storage)
  return {
    version: textOf(version),
    clockSet: clockSet !== false,
    keyStored: keyStored !== false,
    storage: { readOnly: readOnly === true, temporary: temporary === true },
    ...(typeof temperatureC === 'number' && { temperatureC: Math.round(temperatureC) }),
  }
}

/** The members of `GET /update` that are shown. */
export function updateIn(update: JsonObject): JsonObject {
  const { running, state, waitingFor, bundle, percent, error, last, available } = update
  return {
    running: textOf(objectOf(running).version),
    state: textOf(state),
    ...(typeof waitingFor === 'string' && { waitingFor: textOf(waitingFor) }),
    ...(typeof percent === 'number' && { percent }),
    ...(isObject(bundle) && { bundle: textOf(bundle.version) }),
    ...(isObject(available) && { available: textOf(available.version) }),
    ...(isObject(error) && { error: textOf(error.detail) }),
    ...(isObject(last) && { last: { version: textOf(last.version), outcome: textOf(last.outcome) } }),
  }
}

/** The session that `admit` and `deny` are about, as they are shown; and the one that `end` is about. */
export function waitingIn(sessions: readonly SessionShown[]): SessionShown | undefined {
  return sessions.find(({ state }) => state === 'pending')
}
export function mirroringIn(sessions: readonly SessionShown[]): SessionShown | undefined {
  return sessions.find(({ state }) => state === 'active')
}

/**
 * The messages about a device, by the last level of their topic. A resource that is not shown has an empty message. A resource
 * that is not known has none, because the broker's earlier message may still be right; but sessions are always current.
 */
export function messagesOf(state: DeviceState): Readonly<Record<string, string>> {
  const { settings, sessions, status, update } = state
  const messages = {
    settings: textIf(settings, all =>
      Object.fromEntries(Object.entries(all).filter(([name]) => !UNSHOWN.includes(name))),
    ),
    sessions: textIf(sessions, list => {
      const [active, waiting] = [mirroringIn(list), waitingIn(list)]
      return {
        state: active ? 'mirroring' : list.length > 0 ? 'pending' : 'idle',
        mirroring: active ? nameOf(active) : null,
        waiting: waiting ? nameOf(waiting) : null,
        sessions: [...list],
      }
    }),
    status: textIf(status, known => {
      const { readOnly, temporary } = objectOf(known.storage)
      const problems = {
        storage: readOnly === true || temporary === true || known.keyStored === false,
        clock: known.clockSet === false,
      }
      return { ...known, problems, ...(isObject(update) && { firmware: update }) }
    }),
    // With exactly these names, because Home Assistant reads them (home-assistant.io/integrations/update.mqtt).
    update: textIf(update, ({ running = '', available, bundle, state, percent }) => {
      const hasBundle = typeof state === 'string' && HAS_BUNDLE.includes(state)
      return {
        installed_version: running,
        latest_version: available || (hasBundle && bundle) || running,
        in_progress: typeof state === 'string' && IN_PROGRESS.includes(state),
        update_percentage: state === 'installing' && typeof percent === 'number' ? percent : null,
      }
    }),
  }
  const isSaid = (topic: string) => topic === 'sessions' || state[topic as keyof typeof messages] !== 'unknown'
  return Object.fromEntries(Object.entries(messages).filter(([topic]) => isSaid(topic)))
}

function textIf<T extends object>(shown: Shown<T>, make: (value: T) => object): string {
  return typeof shown === 'string' ? '' : JSON.stringify(make(shown))
}

/** A name to show to people, also for a device that sent none. */
function nameOf({ name, model, protocol }: SessionShown): string {
  return name || model || protocol || '?'
}

export function objectOf(value: JsonValue | undefined): JsonObject {
  return isObject(value) ? value : {}
}

/** Text for people; empty for anything else. */
export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? printable(value.slice(0, MAX_TEXT)) : ''
}
