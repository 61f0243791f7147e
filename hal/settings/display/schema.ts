import * as Type from 'typebox/type'
import { Keyed } from '../keyed.ts'

const MODE = '^(preferred|current|off|[0-9]+x[0-9]+(@[0-9]+)?)$'
const WELL_FORMED = new RegExp(MODE)
/** Nine digits each for width, height and rate, and the two characters between them. */
const MAX_MODE = 29

const output = Type.Object(
  {
    present: Type.Boolean({ description: 'Whether a monitor is connected.', readOnly: true }),
    monitor: Type.String({ description: 'Name of the monitor, from its EDID.', readOnly: true }),
    modes: Type.Array(Type.String(), { description: 'Modes that the monitor offers, highest first.', readOnly: true }),
    mode: Type.String({
      description:
        'A mode of the monitor, or preferred: the mode that the monitor asks for. If weston.ini has current or off, ' +
        'that is shown, but cannot be chosen.',
      maxLength: MAX_MODE,
      pattern: MODE,
    }),
    rotation: Type.Unsafe<0 | 90 | 180 | 270>({
      type: 'integer',
      enum: [0, 90, 180, 270],
      description: 'Rotation of the picture, in degrees clockwise.',
    }),
  },
  { title: 'connector', additionalProperties: false },
)
export type Output = Type.Static<typeof output>

export const schema = Keyed(output, { description: 'Display outputs by connector, such as HDMI-A-1.' })
export type Outputs = Type.Static<typeof schema>

export function isMode(text: string): boolean {
  return text.length <= MAX_MODE && WELL_FORMED.test(text)
}
