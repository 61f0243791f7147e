import * as Type from 'typebox/type'
import type { Engine } from '../engine.ts'
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
      description: 'With none, every device may mirror. With moderator, each device must be let in.',
    }),
    timeoutS: Type.Integer({
      description: 'Seconds to wait for a decision; after that, the device is denied.',
      minimum: 30,
      maximum: 600,
    }),
  },
  { description: 'Whether a moderator decides which devices may mirror.', additionalProperties: false },
)
type Moderation = Type.Static<typeof schema>

const DEFAULT: Moderation = { approval: 'none', timeoutS: 120 }
/** While the setting cannot be read, a moderator must let each device in. */
export const MODERATED: Moderation = { ...DEFAULT, approval: 'moderator' }

/**
 * Whether devices must be let in. It is stored in a file of this service, because no single engine knows all devices. But
 * each installed engine has its own option, and these options decide, whoever set them. If any engine lets every device in,
 * so does the receiver: it must not claim an approval that it does not enforce.
 */
export function moderation(system: System, engines: readonly Engine[]): Setting<typeof schema> {
  const options = engines.map(({ approval }) => approval)
  /** Returns whether approval is required, for each installed engine. */
  const required = async () =>
    (await Promise.all(options.map(option => option.read()))).filter(isRequired => isRequired !== undefined)
  return {
    name: 'moderation',
    schema,
    files: [FILE, ...options.flatMap(({ files }) => files)],
    sources: options.flatMap(({ sources }) => sources),
    async read() {
      const text = (await system.readLossless(FILE)) ?? ''
      const approval = getValue(text, APPROVAL) ?? DEFAULT.approval
      const timeoutS = Number(getValue(text, TIMEOUT) ?? DEFAULT.timeoutS)
      if (approval !== 'none' && approval !== 'moderator')
        throw new HalError('UNREADABLE', `${APPROVAL} is neither none nor moderator`)
      if (!Number.isInteger(timeoutS)) throw new HalError('UNREADABLE', `${TIMEOUT} is not a whole number`)
      const installed = await required()
      if (installed.length === 0) return { approval, timeoutS }
      return { approval: installed.includes(false) ? 'none' : 'moderator', timeoutS }
    },
    fallback: async () => ((await required().catch((): boolean[] => [])).includes(false) ? DEFAULT : MODERATED),
    async write({ approval, timeoutS }) {
      const text = (await system.readForEdit(FILE)) ?? ''
      const edited = setValue(setValue(text, APPROVAL, approval), TIMEOUT, String(timeoutS))
      let isRewritten = await system.writeAtomic(FILE, edited, 0o644)
      for (const option of options) if (await option.write(approval === 'moderator')) isRewritten = true
      return isRewritten
    },
    async activate({ approval }, previous) {
      if (approval !== previous.approval) for (const engine of engines) await engine.approvalChanged()
    },
  }
}
