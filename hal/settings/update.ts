import * as Type from 'typebox/type'
import { HalError } from '../errors.ts'
import { isMasked, MAX_URL, masked, whyNoBundleUrl } from '../format/bundle-url.ts'
import { words } from '../format/ini.ts'
import { getValue, setValue } from '../format/key-value.ts'
import { Rauc } from '../os/rauc.ts'
import type { System } from '../os/system.ts'
import { refuse, type Setting, type Violation } from '../setting.ts'
import { SECRET_QUERY } from './secret-query.ts'

const FILE = '/etc/receiverd/update.conf'
/** The days of the week, as `Date.getUTCDay` counts them. */
export const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const
export type Day = (typeof DAYS)[number]
const POLICIES = ['off', 'check', 'download', 'install'] as const
/**
 * Schema members for a time in hours and minutes, or empty: forms show a time-of-day field. An extension of the OpenAPI
 * document (OpenAPI 3.1 §4.9), because the format `time` has seconds and an offset (RFC 3339 §5.6).
 */
const TIME = { pattern: '^(([01][0-9]|2[0-3]):[0-5][0-9])?$', 'x-time-of-day': true }

const schema = Type.Object(
  {
    channel: Type.String({
      description:
        'Address of the firmware bundle for this device, https:// or http://. Empty for none. Its query may be a ' +
        'secret and reads as ?…; sending that back keeps the current query.',
      maxLength: MAX_URL,
      ...SECRET_QUERY,
    }),
    policy: Type.Enum([...POLICIES], {
      description:
        'What the device does by itself, once a day: nothing, check whether the channel has a newer version, download ' +
        'it, or install it and restart.',
    }),
    window: Type.Object(
      {
        days: Type.Array(Type.Enum([...DAYS]), {
          description: 'Days on which the window begins, without duplicates. Empty: every day.',
          maxItems: DAYS.length,
        }),
        from: Type.String({
          description: 'Local time at which the window begins, such as 02:00. Empty if no window is set.',
          ...TIME,
        }),
        to: Type.String({
          description:
            'Local time at which the window ends. An end before the beginning is on the next day. Empty if no window is set.',
          ...TIME,
        }),
      },
      {
        description: 'When the device may restart into a new version. Without a window, only by hand.',
        additionalProperties: false,
      },
    ),
  },
  { description: 'Where new firmware comes from, and when it is installed.', additionalProperties: false },
)
export type UpdateSettings = Type.Static<typeof schema>
export type UpdateWindow = UpdateSettings['window']

/** The value without a file. */
export const NO_UPDATES: UpdateSettings = { channel: '', policy: 'off', window: { days: [], from: '', to: '' } }

/**
 * Whether and when the device updates itself, in a file of this service. RAUC must be installed, and the boot loader must
 * have reported which slot is running.
 * @param isUpdated Whether the service has a folder for bundles.
 */
export function update(system: System, isUpdated = true): Setting<typeof schema> {
  return {
    name: 'update',
    schema,
    files: [FILE],
    withoutActivate: 'the service follows its own configuration',
    unavailable: async () =>
      isUpdated ? new Rauc(system).whyAbsent() : 'the service has no folder for bundles: RECEIVERD_UPDATE is not set',
    async read() {
      const { channel, ...rest } = parse((await system.readLossless(FILE)) ?? '')
      return { channel: masked(channel), ...rest }
    },
    fallback: async () => NO_UPDATES,
    check: async (next, previous) => [
      ...refuse('/channel', whyNoChannel(next.channel, previous.channel)),
      ...refuse('/policy', next.policy !== 'off' && next.channel === '' ? 'needs a channel' : undefined),
      ...whyNoWindow(next.window),
    ],
    async write({ channel, policy, window: { days, from, to } }) {
      const text = (await system.readForEdit(FILE)) ?? ''
      const values = [
        ['CHANNEL', isMasked(channel) ? (getValue(text, 'CHANNEL') ?? '') : channel],
        ['POLICY', policy],
        ['WINDOW_DAYS', days.join(' ')],
        ['WINDOW_FROM', from],
        ['WINDOW_TO', to],
      ] as const
      const edited = values.reduce((edited, [name, value]) => setValue(edited, name, value), text)
      return system.writeAtomic(FILE, edited, 0o600)
    },
  }
}

/** Returns the address of the channel with its query; empty if none is set, or if it cannot be used. */
export async function channelOf(system: System): Promise<string> {
  const channel = getValue((await system.readLossless(FILE)) ?? '', 'CHANNEL') ?? ''
  return whyNoBundleUrl(channel) === undefined ? channel : ''
}

function parse(text: string): UpdateSettings {
  const { policy, window } = NO_UPDATES
  const read = {
    channel: getValue(text, 'CHANNEL') ?? '',
    policy: member(POLICIES, 'POLICY', getValue(text, 'POLICY') ?? policy),
    window: {
      days: words(getValue(text, 'WINDOW_DAYS') ?? '').map(day => member(DAYS, 'WINDOW_DAYS', day)),
      from: getValue(text, 'WINDOW_FROM') ?? window.from,
      to: getValue(text, 'WINDOW_TO') ?? window.to,
    },
  }
  if (read.channel !== '' && whyNoBundleUrl(read.channel) !== undefined)
    throw new HalError('UNREADABLE', 'CHANNEL is not the address of a bundle')
  return read
}

function member<T extends string>(values: readonly T[], name: string, value: string): T {
  const found = values.find(each => each === value)
  if (found === undefined) throw new HalError('UNREADABLE', `${name} must be of ${values.join(', ')}`)
  return found
}

function whyNoChannel(next: string, previous: string): string | undefined {
  if (next === '' || next === previous) return undefined
  return isMasked(next) ? 'the device has no query of this address that it could keep' : whyNoBundleUrl(next)
}

function whyNoWindow({ days, from, to }: UpdateWindow): readonly Violation[] {
  const again = days.findIndex((day, at) => days.indexOf(day) !== at)
  return [
    ...refuse(`/window/days/${again}`, again < 0 ? undefined : 'duplicate'),
    ...refuse('/window/from', from === '' && to !== '' ? 'must be set, because to is set' : undefined),
    ...refuse('/window/to', whyNoEnd(from, to)),
  ]
}

function whyNoEnd(from: string, to: string): string | undefined {
  if (from !== '' && to === '') return 'must be set, because from is set'
  return from !== '' && from === to ? 'must differ from the beginning; a whole day is 00:00 to 23:59' : undefined
}
