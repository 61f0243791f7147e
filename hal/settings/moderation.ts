import * as Type from 'typebox/type'
import { HalError } from '../errors.ts'
import { getValue, setValue } from '../format/key-value.ts'
import { readStartup, setRestricted } from '../format/uxplayrc.ts'
import type { System } from '../os/system.ts'
import { UXPLAYRC, UxPlay } from '../os/uxplay.ts'
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
/** While nobody knows who decides: not everybody is let in. */
export const MODERATED: Moderation = { ...DEFAULT, approval: 'moderator' }

/**
 * Whether devices must be let in: a file of our own, because no single engine knows all devices. Where UxPlay is installed,
 * its own option says whether they must, whoever set it.
 */
export function moderation(system: System): Setting<typeof schema> {
  const uxplay = new UxPlay(system)
  return {
    name: 'moderation',
    schema,
    files: [FILE, UXPLAYRC],
    sources: uxplay.unit.sources,
    async read() {
      const text = (await system.readText(FILE)) ?? ''
      const approval = getValue(text, APPROVAL) ?? DEFAULT.approval
      const timeoutS = Number(getValue(text, TIMEOUT) ?? DEFAULT.timeoutS)
      if (approval !== 'none' && approval !== 'moderator')
        throw new HalError('UNREADABLE', `${APPROVAL} is neither none nor moderator`)
      if (!Number.isInteger(timeoutS)) throw new HalError('UNREADABLE', `${TIMEOUT} is not a whole number`)
      if (!(await uxplay.isInstalled())) return { approval, timeoutS }
      const { isRestricted } = readStartup((await system.readText(UXPLAYRC)) ?? '')
      return { approval: isRestricted ? 'moderator' : 'none', timeoutS }
    },
    fallback: async () => MODERATED,
    async write({ approval, timeoutS }) {
      const text = (await system.readForEdit(FILE)) ?? ''
      const edited = setValue(setValue(text, APPROVAL, approval), TIMEOUT, String(timeoutS))
      const isRewritten = await system.writeAtomic(FILE, edited, 0o644)
      return (await writeRestricted(approval === 'moderator')) || isRewritten
    },
    async activate({ approval }, previous) {
      if (approval !== previous.approval) await uxplay.update()
    },
  }

  async function writeRestricted(isRestricted: boolean): Promise<boolean> {
    if (!(await uxplay.isInstalled())) return false
    const text = (await system.readForEdit(UXPLAYRC)) ?? ''
    if (readStartup(text).isRestricted === isRestricted) return false
    return system.writeAtomic(UXPLAYRC, setRestricted(text, isRestricted))
  }
}
