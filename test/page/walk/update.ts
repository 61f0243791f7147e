/** Updates: the states of one that can be walked through, and the page's text on each. */
import type { UpdateState } from '../../../src/update/state.ts'
import { FAULTS, type Fault } from './proxy.ts'
import type { Scene, Step } from './steps.ts'
import type { Shown } from './watcher.ts'

export const VERSION = '1.1.0'
const BYTES = 4096

const TEXTS: Partial<Record<UpdateState['state'], string>> = {
  downloaded: `Version ${VERSION} is here, and can be installed.`,
  installing: `Version ${VERSION} is being installed`,
  installed: `Version ${VERSION} is installed.`,
}

/** An untruth on the view of updates. */
export function differenceOfUpdate({ view, state, update }: Shown, now: UpdateState['state']): string | undefined {
  if (view !== 'Update' || state !== 'Connected') return undefined
  const told = Object.entries(TEXTS).find(([, text]) => update.startsWith(text))?.[0]
  return told === (now in TEXTS ? now : undefined) ? undefined : `the update is ${now}, and the page says: ${update}`
}

/** RAUC ends an installation, or somebody else removes the bundle. */
export function updateNews({ room }: Scene): readonly Step[] {
  const { rauc } = room
  if (rauc.operation === 'installing')
    return [
      { what: 'RAUC installs it', weight: 1, act: async () => rauc.succeed(VERSION) },
      { what: 'RAUC cannot install it', weight: 3, act: async () => rauc.fail('write error') },
    ]
  return [{ what: 'others remove the bundle', weight: 0.3, act: () => room.removeBundle() }]
}

/** By the thumb. @param variants Makes the steps of a press that asks the device for something. */
export function updateSteps(scene: Scene, shown: Shown, variants: (name: string) => readonly Step[]): readonly Step[] {
  const { buttons, view } = shown
  const { press, random } = scene
  if (view !== 'Update') return []
  const fault = random.chance(0.5) ? random.pick(FAULTS) : undefined
  return [
    ...(buttons.includes('Choose a file…')
      ? [{ what: `send a bundle${fault ? `, which is ${fault.kind}` : ''}`, weight: 8, act: () => send(scene, fault) }]
      : []),
    ...(buttons.includes('Install…')
      ? [{ what: 'think of installing it', weight: 8, act: () => press.plain('Install…') }]
      : []),
    ...(buttons.includes('Discard…')
      ? [{ what: 'think of discarding it', weight: 4, act: () => press.plain('Discard…') }]
      : []),
    ...(buttons.includes('Discard') ? variants('Discard').map(step => ({ ...step, weight: step.weight / 10 })) : []),
  ]
}

/** The browser's window for choosing a file is no part of the walk. The page itself asks again where it has no answer. */
async function send({ thumb, room, press }: Scene, fault: Fault | undefined): Promise<void> {
  room.proxy.arm(fault)
  await thumb.give(BYTES)
  await press.sent()
  room.proxy.arm()
  const others = room.proxy.take().filter(({ method, path }) => method !== 'PUT' || path !== '/update/bundle')
  if (others.length > 0) throw new Error(`a bundle was to be sent, and the page asked for ${JSON.stringify(others)}`)
}
