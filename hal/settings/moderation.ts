import * as Type from 'typebox/type'
import { HalError } from '../errors.ts'
import { getValue, setValue } from '../format/key-value.ts'
import type { System } from '../os/system.ts'
import type { Setting } from '../setting.ts'

const FILE = '/etc/receiverd/moderation.conf'
const APPROVAL = 'APPROVAL'
const TIMEOUT = 'TIMEOUT_S'

const schema = Type.Object(
  {
    approval: Type.Enum(['none', 'moderator'], {
      description: 'With none, every device may mirror. With moderator, each must be let in.',
    }),
    timeoutS: Type.Integer({
      description: 'Seconds after which a device that nobody decides about is denied.',
      minimum: 30,
      maximum: 600,
    }),
  },
  { description: 'Who decides which devices may mirror.', additionalProperties: false },
)
export type Moderation = Type.Static<typeof schema>

const DEFAULT: Moderation = { approval: 'none', timeoutS: 120 }

/** Whether devices must be let in. A file of our own, because no single engine knows all devices. */
export function moderation(system: System): Setting<typeof schema> {
  return {
    name: 'moderation',
    schema,
    files: [FILE],
    withoutActivate: 'sessions follow the setting itself',
    async read() {
      const text = (await system.readText(FILE)) ?? ''
      const approval = getValue(text, APPROVAL) ?? DEFAULT.approval
      const timeoutS = Number(getValue(text, TIMEOUT) ?? DEFAULT.timeoutS)
      if (approval !== 'none' && approval !== 'moderator')
        throw new HalError('UNREADABLE', `${APPROVAL} is neither none nor moderator`)
      if (!Number.isInteger(timeoutS)) throw new HalError('UNREADABLE', `${TIMEOUT} is not a whole number`)
      return { approval, timeoutS }
    },
    // A file that says nothing intelligible must not let everybody in.
    fallback: async () => ({ ...DEFAULT, approval: 'moderator' }),
    async write({ approval, timeoutS }) {
      const text = (await system.readForEdit(FILE)) ?? ''
      return system.writeAtomic(FILE, setValue(setValue(text, APPROVAL, approval), TIMEOUT, String(timeoutS)), 0o644)
    },
  }
}
