/** The output of amixer(1) from alsa-utils for the simple controls of a sound card. */

export interface PlaybackControl {
  /** The control as amixer's commands take it: its name in quotes, and its index. */
  readonly id: string
  /** Percent, of the loudest channel: balance between the channels does not count as a lower volume. */
  readonly volume: number
  /** Whether it is switched off on every channel. */
  readonly muted: boolean
  readonly hasSwitch: boolean
}

/** Controls of the whole sound come before controls of a single output. */
const PREFERRED = ['Master', 'PCM', 'HDMI', 'Headphone', 'Speaker', 'Digital', 'Line Out', 'Lineout', 'DAC']

/** The control that sets the playback volume, chosen from the output of `amixer scontents` for one card. */
export function playbackControl(text: string): PlaybackControl | undefined {
  const controls = text.split(/^(?=Simple mixer control )/m).flatMap(block => {
    const [, name, index] = /^Simple mixer control '(.*)',(\d+)$/m.exec(block) ?? []
    const capabilities = /^ *Capabilities:(.*)$/m.exec(block)?.[1]?.split(' ') ?? []
    return name === undefined ? [] : [{ name, index, block, capabilities }]
  })
  // A volume shared by playback and capture is printed as `volume`. Under a name not listed above it may be a microphone's.
  const named = PREFERRED.map(name =>
    controls.find(control => control.name === name && /\bp?volume\b/.test(control.capabilities.join(' '))),
  ).find(control => control !== undefined)
  const control = named ?? controls.find(({ capabilities }) => capabilities.includes('pvolume'))
  if (!control) return undefined
  const { name, index, block, capabilities } = control
  // The line of a channel: `  Front Left: Playback 24 [77%] [-11.25dB] [on] Capture 0 [0%] [off]`. A control shared by
  // playback and capture has neither word.
  const playback = block.replace(/ Capture .*$/gm, '')
  const levels = Array.from(playback.matchAll(/ \[(-?\d+)%\]/g), ([, percent]) => Number(percent))
  const mark = name.includes("'") ? '"' : "'"
  return {
    id: `${mark}${name}${mark},${index}`,
    volume: Math.min(100, Math.max(0, ...levels)),
    muted: / \[off\]/.test(playback) && !/ \[on\]/.test(playback),
    hasSwitch: capabilities.includes('pswitch') || capabilities.includes('switch'),
  }
}

/** The card numbers in /proc/asound/cards: ` 0 [Headphones     ]: bcm2835_headpho - bcm2835 Headphones`. */
export function cardNumbers(text: string): readonly string[] {
  return Array.from(text.matchAll(/^ *(\d+) \[/gm), ([, number = '']) => number)
}
