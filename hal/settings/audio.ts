import * as Type from 'typebox/type'
import { HalError, reasonOf } from '../errors.ts'
import { cardNumbers, type PlaybackControl, playbackControl } from '../format/amixer.ts'
import type { System } from '../os/system.ts'
import type { Setting } from '../setting.ts'

const CARDS = '/proc/asound/cards'

const schema = Type.Object(
  {
    volume: Type.Integer({
      description: "Percent, as alsamixer(1) maps it to the ear; the answer has the nearest of the driver's steps.",
      minimum: 0,
      maximum: 100,
    }),
    muted: Type.Boolean({ description: 'Whether the output is switched off, whatever its volume.' }),
  },
  { description: 'Sound that is played.', additionalProperties: false },
)

/** The volume: a playback control of the first sound card that has one, by amixer(1), kept by alsactl(1). */
export function audio(system: System): Setting<typeof schema> {
  return {
    name: 'audio',
    schema,
    // The value is the driver's. The file that alsactl keeps it in for the next boot is written, and locked, by alsactl.
    files: [],
    async unavailable() {
      if (!system.isRunning) return 'sound belongs to the running system, and this is the root of another one'
      return find(system).then(() => undefined, reasonOf)
    },
    async read() {
      const { volume, muted } = await find(system)
      return { volume, muted }
    },
    fallback: async () => ({ volume: 0, muted: false }),
    async check({ muted }) {
      if (!muted || (await find(system).catch(() => undefined))?.hasSwitch !== false) return []
      return [{ pointer: '/muted', detail: 'this device has no switch for it: set the volume to 0' }]
    },
    async activate(value) {
      const { device, id, volume, muted, hasSwitch } = await find(system)
      // All channels get one level: where the volume is right, their balance stays.
      const steps = value.volume === volume ? [] : [`${value.volume}%`]
      if (hasSwitch && value.muted !== muted) steps.push(value.muted ? 'mute' : 'unmute')
      if (steps.length > 0) await system.run(['amixer', '-M', '-D', device, 'sset', id, 'playback', ...steps])
      await system.run(['alsactl', 'store'])
    },
    // Before alsa-utils 1.2.7 it keeps its lines back while stdout is a pipe: the look at every setting finds the change.
    watch: changed => system.monitor(['alsactl', 'monitor'], changed),
  }
}

/** The control to turn, on the card that alsa.conf has for the default or else on the first that has one. */
async function find(system: System): Promise<PlaybackControl & { readonly device: string }> {
  const cards = cardNumbers((await system.readText(CARDS)) ?? '')
  if (cards.length === 0) throw new HalError('ABSENT', 'there is no sound card')
  let why: unknown = new HalError('ABSENT', 'no sound card has a volume control')
  // Not `default`: a sound server may stand in for it, which has nothing for a system service.
  for (const device of ['sysdefault', ...cards.map(card => `sysdefault:${card}`)])
    try {
      const control = playbackControl(await system.run(['amixer', '-M', '-D', device, 'scontents']))
      if (control) return { device, ...control }
    } catch (error) {
      why = error
    }
  throw why
}
