import * as Type from 'typebox/type'
import type { Files } from '../../hal/files/files.ts'
import type { Certificate } from '../../hal/os/certificate.ts'
import { isTemporary } from '../../hal/os/data-partition.ts'
import { readFacts } from '../../hal/os/facts.ts'
import type { System } from '../../hal/os/system.ts'
import type { Signal } from '../../hal/settings/wifi/adapter.ts'
import type { ApiKeyStore } from '../auth/api-key.ts'
import { type Clock, rfc3339 } from '../clock.ts'
import { formatEtag } from '../http/conditional.ts'
import { json } from '../http/reply.ts'
import type { Route } from '../http/route.ts'
import { SIGNAL_SHARED_MS, SIGNAL_WAIT_MS } from '../limits.ts'
import type { SystemStore } from '../system/store.ts'
import { sharedFor } from './shared-for.ts'

export interface StatusOptions {
  readonly version: string
  readonly system: System
  readonly state: Files
  readonly clock: Clock
  /** When the program was built, in milliseconds since 1970. A clock that is earlier has not been set. */
  readonly builtAt: number
  /** Numbers of open streams, polls and connections, by name. */
  readonly counts: () => Readonly<Record<string, number>>
  readonly keys: ApiKeyStore
  readonly configuration: Pick<SystemStore, 'trial'>
  /** Returns the digest of the settings that devices can have in common. */
  readonly configurationDigest: () => string
  /** Returns the certificate of the TLS server in front of the API; undefined if there is none. */
  readonly certificate: () => Certificate | undefined
  /** Resolves with whether devices can connect by AirPlay; undefined if that is switched off, or unknown. */
  readonly airplayReady: () => Promise<boolean | undefined>
}

/** What the status needs in addition to what it shares with the metrics. */
export interface StatusRouteOptions extends StatusOptions {
  /** Resolves with the signal of the current Wi-Fi network; undefined if the device is in none. */
  readonly signal: () => Promise<Signal | undefined>
}

const count = (description: string) => Type.Integer({ minimum: 0, description })
const space = (description: string) =>
  Type.Optional(Type.Object({ totalBytes: Type.Integer(), availableBytes: Type.Integer() }, { description }))

const StatusObject = Type.Object(
  {
    version: Type.String({ description: 'Version of this service.' }),
    bootedAt: Type.Optional(Type.String({ format: 'date-time' })),
    uptimeS: Type.Optional(Type.Integer({ description: 'Seconds since the device booted.' })),
    clockSet: Type.Boolean({ description: 'Whether the device knows the time.' }),
    temperatureC: Type.Optional(Type.Number({ description: 'Temperature of the hottest sensor, in degrees Celsius.' })),
    load: Type.Optional(
      Type.Array(Type.Number(), {
        minItems: 3,
        maxItems: 3,
        description: 'Load averages of the last 1, 5 and 15 minutes.',
      }),
    ),
    memory: space('Memory, in total and still available to programs.'),
    storage: Type.Optional(
      Type.Object(
        {
          totalBytes: Type.Integer(),
          availableBytes: Type.Integer(),
          readOnly: Type.Boolean({
            description: 'Whether the file system refuses every write, so that nothing can be changed.',
          }),
          temporary: Type.Boolean({
            description: 'Whether its partition could not be mounted, so that a restart loses all changes.',
          }),
        },
        { description: 'The file system that holds the state directory.' },
      ),
    ),
    streams: count('Open event streams.'),
    heldPolls: count('Long polls that wait for an event.'),
    connections: count('Open connections of clients.'),
    sessions: count('Devices that mirror or ask to.'),
    trial: Type.Optional(
      Type.Object(
        {
          etag: Type.String({ description: 'To send as `If-Match` when confirming or undoing the change.' }),
          properties: Type.Array(Type.String()),
          until: Type.Optional(Type.String({ format: 'date-time', description: 'Absent while the clock is not set.' })),
          remainingS: Type.Integer({ description: 'Seconds until the change is undone.' }),
        },
        { description: 'A change that will be undone unless it is confirmed.' },
      ),
    ),
    configurationDigest: Type.String({
      description:
        'SHA-256, in hexadecimal, of the writable settings as canonical JSON (RFC 8785), without secrets and without ' +
        'anything that the schemas mark with `x-identity`. Devices that are set up alike have the same digest.',
      pattern: '^[0-9a-f]{64}$',
    }),
    keyStored: Type.Boolean({
      description: 'Whether the API key is stored in its file, so that it survives a restart.',
    }),
    airplayReady: Type.Optional(
      Type.Boolean({
        description:
          'Whether devices can connect by AirPlay; absent if it is switched off. While UxPlay starts, it is false. If it stays so, ' +
          'the log of `uxplay.service` says why, as when `/etc/uxplayrc` has an option that UxPlay does not know.',
      }),
    ),
    certificate: Type.Optional(
      Type.Object(
        {
          expiresAt: Type.String({
            format: 'date-time',
            description: 'When the first certificate of the chain expires.',
          }),
          pin: Type.String({ description: 'SHA-256 of its public key, in base64.' }),
          fingerprint: Type.String({ description: 'SHA-256 of the certificate, in hexadecimal, as browsers show it.' }),
          madeBy: Type.Enum(['device', 'owner'], {
            description: 'Whether the device made the certificate and renews it, or its owner did and must renew it.',
          }),
        },
        { description: 'The certificate with which this device serves TLS.' },
      ),
    ),
    wifi: Type.Optional(
      Type.Object(
        {
          ssid: Type.String(),
          signalDbm: Type.Optional(
            Type.Integer({ description: 'From about -90 (barely received) to -30 (next to the access point).' }),
          ),
        },
        { description: 'The Wi-Fi network that the device is connected to.' },
      ),
    ),
    certificatePin: Type.Optional(Type.String({ deprecated: true, description: 'Same as `certificate.pin`.' })),
  },
  { $id: 'Status' },
)

/** @param now Milliseconds since 1970; undefined if the time is not known. */
function trialOf(trial: SystemStore['trial'], now: number | undefined): object | undefined {
  if (!trial) return undefined
  const { id, properties, remainingS } = trial
  const until = now === undefined ? undefined : rfc3339(now + 1000 * remainingS)
  return { etag: formatEtag(id), properties, until, remainingS }
}

/** Reads the values for `/status` and the metrics. @returns `StatusObject`, with `undefined` for absent values. */
export async function readStatus(options: StatusOptions) {
  const { version, system, state, clock, builtAt, counts, keys, configuration } = options
  const { uptimeS, ...facts } = await readFacts(system)
  const now = clock.now()
  const clockSet = now >= builtAt
  const certificate = options.certificate()
  return {
    version,
    bootedAt: clockSet && uptimeS !== undefined ? rfc3339(now - 1000 * uptimeS) : undefined,
    uptimeS: uptimeS && Math.floor(uptimeS),
    clockSet,
    ...facts,
    storage: await storageOf(state, system),
    trial: trialOf(configuration.trial, clockSet ? now : undefined),
    configurationDigest: options.configurationDigest(),
    keyStored: keys.isStored,
    airplayReady: await options.airplayReady().catch(() => undefined),
    ...counts(),
    certificate: certificate && certificateOf(certificate),
    certificatePin: certificate?.pin,
  }
}

function certificateOf({ to, pin, fingerprint, isOwn }: Certificate) {
  return { expiresAt: rfc3339(to), pin, fingerprint, madeBy: isOwn ? 'device' : 'owner' }
}

async function storageOf(state: Files, system: System) {
  const space = await state.space().catch(() => undefined)
  return space && { ...space, temporary: await isTemporary(system) }
}

/** The route that reads state that changes too often for events. */
export function statusRoutes(options: StatusRouteOptions): readonly Route[] {
  const look = sharedFor(SIGNAL_SHARED_MS, options.signal)
  const wifi = async () => {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<undefined>(resolve => {
      timer = setTimeout(() => resolve(undefined), SIGNAL_WAIT_MS)
    })
    // Its configuration may be unreadable, and a status is most wanted where storage fails.
    return Promise.race([look().catch(() => undefined), late]).finally(() => clearTimeout(timer))
  }
  return [
    {
      method: 'GET',
      path: '/status',
      needs: 'admin:r',
      handle: async () => json(Buffer.from(JSON.stringify({ ...(await readStatus(options)), wifi: await wifi() }))),
      docs: {
        operationId: 'getStatus',
        summary: 'Read the status of the device',
        description: 'State that changes too often for events. Values that the device cannot determine are absent.',
        answers: {
          200: { description: 'The current state of the device.', content: { 'application/json': StatusObject } },
        },
      },
    },
  ]
}
