import * as Type from 'typebox/type'
import { HalError, reasonOf } from '../errors.ts'
import { cardNumbers, type PlaybackControl, playbackControl } from '../format/amixer.ts'
import type { System } from '../os/system.ts'
import type { Setting } from '../setting.ts'

const CARDS = '/proc/asound/cards'

const schema = Type.Object(
  {
    volume: Type.Integer({
      description: 'Percent, as shown by alsamixer(1). The sound card uses the nearest of its steps.',
      minimum: 0,
      maximum: 100,
    }),
    muted: Type.Boolean({ description: 'Whether the sound is off, regardless of the volume.' }),
  },
  { description: 'Sound output.', additionalProperties: false },
)

/** The volume: a playback control of the first sound card that has one, set by amixer(1) and stored by alsactl(1). */
export function audio(system: System): Setting<typeof schema> {
  return {
    name: 'audio',
    schema,
    // The driver holds the value. alsactl writes and locks the file that preserves it for the next boot.
    files: [],
    devices: ['sound'],
    async unavailable() {
      if (!system.isRunning) return 'the volume can be read only on the running system, not with --root'
      return find(system).then(() => undefined, reasonOf)
    },
    async read() {
      const { volume, muted } = await find(system)
      return { volume, muted }
    },
    fallback: async () => ({ volume: 0, muted: false }),
    async check({ muted }) {
      if (!muted || (await find(system).catch(() => undefined))?.hasSwitch !== false) return []
      return [{ pointer: '/muted', detail: 'this device cannot mute; set the volume to 0 instead' }]
    },
    async activate(value) {
      const { device, id, volume, muted, hasSwitch } = await find(system)
      // Setting the volume gives all channels the same level, so skip it if the volume is right, to keep their balance.
      const steps = value.volume === volume ? [] : [`${value.volume}%`]
      if (hasSwitch && value.muted !== muted) steps.push(value.muted ? 'mute' : 'unmute')
      if (steps.length > 0) {
        const said = await system.run(['amixer', '-M', '-D', device, 'sset', id, 'playback', ...steps])
        // amixer prints the control as it is set now.
        if (!playbackControl(said)) throw new HalError('COMMAND_FAILED', 'amixer did not set anything')
      }
      await system.run(['alsactl', 'store'])
    },
    // Before alsa-utils 1.2.7, alsactl buffers its output when stdout is a pipe, so it reports nothing.
    watch: changed => system.monitor(['alsactl', 'monitor'], changed),
  }
}

/** Finds the control to set: that of alsa.conf's default card, or else of the first card that has one. */
async function find(system: System): Promise<PlaybackControl & { readonly device: string }> {
  const cards = cardNumbers((await system.readText(CARDS)) ?? '')
  if (cards.length === 0) throw new HalError('ABSENT', 'there is no sound card')
  let why: unknown
  // `default` is not tried: it may be a sound server, which does not serve system services.
  for (const device of ['sysdefault', ...cards.map(card => `sysdefault:${card}`)])
    try {
      const said = await system.run(['amixer', '-M', '-D', device, 'scontents'])
      const control = playbackControl(said)
      if (control) return { device, ...control }
      // A card without any control is rare: amixer may have failed.
      why ??= new HalError(said === '' ? 'COMMAND_FAILED' : 'ABSENT', 'no sound card has a volume control')
    } catch (error) {
      why = error
    }
  throw why
}
