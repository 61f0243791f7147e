import type { ApprovalOption } from '../engine.ts'
import { readStartup, setRestricted } from '../format/uxplayrc.ts'
import type { System } from '../os/system.ts'
import { UXPLAYRC, type UxPlay } from '../os/uxplay.ts'

/** The option `restrict` in the startup file. */
export function uxplayApproval(system: System, uxplay: UxPlay): ApprovalOption {
  return {
    files: [UXPLAYRC],
    sources: uxplay.unit.sources,
    async read() {
      if (!(await uxplay.isInstalled())) return undefined
      return readStartup((await system.readLossless(UXPLAYRC)) ?? '').isRestricted
    },
    async write(isRequired) {
      if (!(await uxplay.isInstalled())) return false
      const text = (await system.readForEdit(UXPLAYRC)) ?? ''
      if (readStartup(text).isRestricted === isRequired) return false
      return system.writeAtomic(UXPLAYRC, setRestricted(text, isRequired))
    },
  }
}
