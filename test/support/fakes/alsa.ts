import { HalError } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/os/command.ts'
import { FakeMonitors } from './monitors.ts'

export interface FakeControl {
  readonly name: string
  /** The highest of the driver's steps, which begin at 0. */
  readonly steps: number
  /** The step of each channel. */
  levels: number[]
  /** Undefined if the control has no switch. */
  on: boolean | undefined
}

/**
 * Sound cards with their controls, behind amixer(1) and alsactl(1) of alsa-utils 1.2.8. A volume is one of the driver's
 * steps; without a dB scale, `-M` is linear (alsamixer/volume_mapping.c).
 */
export class FakeAlsa {
  readonly cards: FakeControl[][]
  /** A command that fails, with its verb, such as `alsactl store`. */
  broken: string | undefined
  #stored: FakeControl[][] = []
  readonly monitors: FakeMonitors

  constructor(cards: FakeControl[][], monitors = new FakeMonitors()) {
    this.cards = cards
    this.monitors = monitors
  }

  /** `0 Master 16/31 on`: a line for each control, and then whether the next boot restores this state. */
  get text(): string {
    const text = textOf(this.cards)
    return text === textOf(this.#stored) ? `${text}stored\n` : `${text}not stored\n`
  }

  store(): void {
    this.#stored = structuredClone(this.cards)
  }

  /** The cards load what is stored. */
  boot(): void {
    this.cards.splice(0, Number.POSITIVE_INFINITY, ...structuredClone(this.#stored))
  }

  readonly amixer: Run = async argv => {
    const [, mapped, , device = '', verb, id, ...words] = argv
    if (mapped !== '-M' || this.broken === `amixer ${verb}`)
      throw new HalError('COMMAND_FAILED', 'amixer failed with status 1')
    const card = Number(/^sysdefault(?::(\d+))?$/.exec(device)?.[1] ?? 0)
    const controls = this.cards[card]
    if (!controls) throw new HalError('COMMAND_FAILED', 'amixer failed with status 1')
    if (verb === 'scontents') return controls.map(scontents).join('')
    const control = controls.find(({ name }) => id === `'${name}',0`)
    if (verb !== 'sset' || !control || words[0] !== 'playback')
      throw new HalError('COMMAND_FAILED', 'amixer failed with status 1')
    for (const word of words.slice(1)) {
      if (word === 'mute' || word === 'unmute') {
        if (control.on === undefined) throw new HalError('COMMAND_FAILED', 'amixer failed with status 1')
        control.on = word === 'unmute'
      } else {
        const step = roundEven((Number.parseInt(word, 10) / 100) * control.steps)
        control.levels = control.levels.map(() => step)
      }
    }
    this.#tell(card, control)
    return scontents(control)
  }

  readonly alsactl: Run = async argv => {
    if (this.broken === `alsactl ${argv[1]}`) throw new HalError('COMMAND_FAILED', 'alsactl failed with status 1')
    if (argv[1] !== 'store') throw new HalError('COMMAND_FAILED', 'alsactl failed with status 1')
    this.store()
    return ''
  }

  /** Somebody else changes a control of the first card. */
  turn(name: string, change: { readonly step?: number; readonly on?: boolean }): void {
    const control = this.cards[0]?.find(control => control.name === name)
    if (!control) throw new Error(`no control ${name}`)
    const { step, on } = change
    if (step !== undefined) control.levels = control.levels.map(() => step)
    if (on !== undefined) control.on = on
    this.#tell(0, control)
  }

  /** monitor.c: the card, the number and the name of the element, and the change. */
  #tell(card: number, { name }: FakeControl): void {
    this.monitors.print('alsactl monitor', `node hw:${card}, #1 (2,0,0,${name} Playback Volume,0) VALUE`)
  }
}

function textOf(cards: readonly (readonly FakeControl[])[]): string {
  const lines = cards.flatMap((controls, card) =>
    controls.map(({ name, steps, levels, on }) => {
      const state = on === undefined ? '' : on ? ' on' : ' off'
      return `${card} ${name} ${levels.join(',')}/${steps}${state}\n`
    }),
  )
  return lines.join('')
}

/** show_selem() of amixer.c. */
function scontents({ name, steps, levels, on }: FakeControl): string {
  const isMono = levels.length === 1
  const channels = isMono ? ['Mono'] : ['Front Left', 'Front Right']
  const joined = (capability: string) => (isMono ? `${capability} ${capability}-joined` : capability)
  const capabilities = [joined('pvolume'), ...(on === undefined ? [] : [joined('pswitch')])]
  return [
    `Simple mixer control '${name}',0`,
    `  Capabilities: ${capabilities.join(' ')}`,
    `  Playback channels: ${channels.join(' - ')}`,
    `  Limits: Playback 0 - ${steps}`,
    ...levels.map((level, at) => {
      const percent = roundEven((level / steps) * 100)
      return `  ${channels[at]}: Playback ${level} [${percent}%]${on === undefined ? '' : on ? ' [on]' : ' [off]'}`
    }),
    '',
  ].join('\n')
}

/** rint(3): halves are rounded to the even neighbor. */
function roundEven(value: number): number {
  const down = Math.floor(value)
  if (value - down !== 0.5) return Math.round(value)
  return down % 2 === 0 ? down : down + 1
}
