import * as Type from 'typebox/type'

const percentage = Type.Integer({ minimum: 0, maximum: 100 })
const time = (description: string) => Type.String({ format: 'date-time', description })
const version = Type.String({ description: 'SemVer 2.0, as stated by the image or bundle.' })

/** The step of the update that the device is at. */
export const ACTIVITIES = [
  'idle',
  'receiving',
  'downloading',
  'downloaded',
  'installing',
  'installed',
  'restarting',
  'failed',
] as const
export type Activity = (typeof ACTIVITIES)[number]

/** The condition that a restart waits for. */
export const HINDRANCES = ['window', 'sessions', 'clock', 'network'] as const
export type Hindrance = (typeof HINDRANCES)[number]

export const SOURCES = ['upload', 'url'] as const
export type Source = (typeof SOURCES)[number]

/** Also the content of `last.json` in the folder RECEIVERD_UPDATE. */
export const Outcome = Type.Object(
  {
    version: Type.String(),
    outcome: Type.Enum(['installed', 'rolled back', 'failed', 'discarded']),
    reason: Type.Optional(Type.String()),
    at: Type.Optional(time('Absent while the clock is not set.')),
  },
  { description: 'The outcome of the last update.' },
)
export type Outcome = Type.Static<typeof Outcome>

/** The body of GET /update, and the data of each event of the topic. A member without a value is absent. */
export const UpdateState = Type.Object(
  {
    running: Type.Object(
      {
        version: Type.Optional(version),
        slot: Type.String({ description: 'The name of the system that runs, such as `A`.' }),
        state: Type.Enum(['good', 'trial'], { description: '`trial`: rolled back unless it proves good.' }),
      },
      { description: 'The system that runs.' },
    ),
    other: Type.Object(
      {
        version: Type.Optional(version),
        state: Type.Enum(['good', 'bad', 'empty'], { description: '`good`: the device can go back to it.' }),
      },
      { description: 'The system that an update replaces.' },
    ),
    state: Type.Enum([...ACTIVITIES], {
      description:
        '`downloaded`: a checked bundle is ready. `installed`: the next restart starts it. `failed`: see `error`.',
    }),
    waitingFor: Type.Optional(Type.Enum([...HINDRANCES], { description: 'The condition that the restart waits for.' })),
    bundle: Type.Optional(
      Type.Object({
        version: Type.Optional(version),
        bytes: Type.Optional(Type.Integer({ minimum: 0, description: 'Size of the whole bundle, if known.' })),
        receivedBytes: Type.Integer({ minimum: 0 }),
        source: Type.Enum([...SOURCES]),
      }),
    ),
    percent: Type.Optional(percentage),
    error: Type.Optional(
      Type.Object(
        { type: Type.String({ description: 'A problem type.' }), detail: Type.String() },
        { description: 'Why the last step failed.' },
      ),
    ),
    last: Type.Optional(Outcome),
    available: Type.Optional(
      Type.Object(
        { version, checkedAt: time('Time of the check.') },
        { description: 'The newest version in the channel.' },
      ),
    ),
    testKeys: Type.Optional(
      Type.Literal(true, { description: 'The device accepts bundles signed with throw-away keys.' }),
    ),
  },
  { $id: 'Update' },
)
export type UpdateState = Type.Static<typeof UpdateState>
