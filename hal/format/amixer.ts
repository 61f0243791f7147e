/** What amixer(1) of alsa-utils prints of the simple controls of a sound card, and how it is told of one. */

export interface PlaybackControl {
  /** The control as a command of amixer takes it: its name in quotes, its index. */
  readonly id: string
  /** Percent; of the loudest channel, so that a balance between them is no lower volume. */
  readonly volume: number
  /** Switched off on every channel. */
  readonly muted: boolean
  readonly hasSwitch: boolean
}

/** What turns down all that is heard, before what turns down one output of several. */
const PREFERRED = ['Master', 'PCM', 'HDMI', 'Headphone', 'Speaker', 'Digital', 'Line Out', 'Lineout', 'DAC']

/** The control to turn for the volume of what is played, out of all that `amixer scontents` prints of a card. */
export function playbackControl(text: string): PlaybackControl | undefined {
  const controls = text.split(/^(?=Simple mixer control )/m).flatMap(block => {
    const [, name, index] = /^Simple mixer control '(.*)',(\d+)$/m.exec(block) ?? []
    const capabilities = /^ *Capabilities:(.*)$/m.exec(block)?.[1]?.split(' ') ?? []
    return name === undefined ? [] : [{ name, index, block, capabilities }]
  })
  // One volume for playback and capture, which is printed as `volume`, may be a microphone's.
  const named = PREFERRED.map(name =>
    controls.find(control => control.name === name && /\bp?volume\b/.test(control.capabilities.join(' '))),
  ).find(control => control !== undefined)
  const control = named ?? controls.find(({ capabilities }) => capabilities.includes('pvolume'))
  if (!control) return undefined
  const { name, index, block, capabilities } = control
  // A channel's line: `  Front Left: Playback 24 [77%] [-11.25dB] [on] Capture 0 [0%] [off]`, without the word where
  // playback and capture have it together.
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

/** The numbers of the cards in /proc/asound/cards: ` 0 [Headphones     ]: bcm2835_headpho - bcm2835 Headphones`. */
export function cardNumbers(text: string): readonly string[] {
  return Array.from(text.matchAll(/^ *(\d+) \[/gm), ([, number = '']) => number)
}
