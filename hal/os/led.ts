import { HalError } from '../errors.ts'
import type { System } from './system.ts'

/** The kernel's leds-class.rst. Each LED is a folder here, named `DEVICE:COLOUR:FUNCTION` or as the board calls it. */
const LEDS = '/sys/class/leds'
/** LEDs that people look at, best first. `ACT` was called `led0` on a Raspberry Pi before Linux 5.17. */
const PREFERRED = [/^ACT$/, /^led0$/, /:status(-\d+)?$/, /:activity(-\d+)?$/, /:heartbeat(-\d+)?$/]
/** An LED without a colour belongs to a keyboard, a card slot or a network port, such as `input3::capslock`. */
const OF_A_PERIPHERAL = /::/
/** Limit on the LEDs to choose from. Boards have one to a dozen. */
const MAX_LEDS = 256
/** Milliseconds on, and then off: a blink that stands out from the kernel's triggers. */
const HALF_PERIOD_MS = 250

/** An LED's previous state, to be put back. */
interface Before {
  readonly trigger: string | undefined
  readonly brightness: string
}

/** The LED that people look at. */
export class Led {
  readonly #system: System
  /** Ends the blinking; undefined while it does not blink. */
  #end: (() => Promise<void>) | undefined
  #deadline: NodeJS.Timeout | undefined

  constructor(system: System) {
    this.#system = system
  }

  /**
   * Makes the LED blink for `ms` milliseconds from now, and then restores it. It is switched from here, because a kernel may
   * lack the trigger `timer`.
   * @throws {HalError} `ABSENT` if the device has no LED; the system's own errors if it cannot be switched.
   */
  async blink(ms: number): Promise<void> {
    this.#end ??= await this.#start()
    clearTimeout(this.#deadline)
    this.#deadline = setTimeout(() => void this.stop(), ms)
  }

  /** Ends the blinking. */
  async stop(): Promise<void> {
    clearTimeout(this.#deadline)
    const end = this.#end
    this.#end = undefined
    await end?.()
  }

  async #start(): Promise<() => Promise<void>> {
    const folder = await findLed(this.#system)
    const before = await this.#read(folder)
    const write = (name: string, value: string) => this.#system.writeAttribute(`${folder}/${name}`, value)
    const max = (await this.#system.readText(`${folder}/max_brightness`).catch(() => undefined))?.trim() ?? '1'
    let isOn = true
    if (before.trigger !== undefined) await write('trigger', 'none')
    await write('brightness', max)
    const timer = setInterval(() => {
      isOn = !isOn
      // Its driver may be gone by now.
      write('brightness', isOn ? max : '0').catch(() => undefined)
    }, HALF_PERIOD_MS)
    return async () => {
      clearInterval(timer)
      await write('brightness', before.brightness).catch(() => undefined)
      if (before.trigger !== undefined) await write('trigger', before.trigger).catch(() => undefined)
    }
  }

  async #read(folder: string): Promise<Before> {
    // All triggers in one line, the current one in brackets: `none timer [heartbeat]`.
    const triggers = (await this.#system.readText(`${folder}/trigger`).catch(() => undefined)) ?? ''
    const brightness = ((await this.#system.readText(`${folder}/brightness`)) ?? '').trim()
    return { trigger: /\[([^[\]]+)\]/.exec(triggers)?.[1], brightness }
  }
}

/** Chooses the LED that blinks, and returns its folder. */
async function findLed(system: System): Promise<string> {
  const names = (await system.list(LEDS)).slice(0, MAX_LEDS)
  const best = PREFERRED.flatMap(pattern => names.filter(name => pattern.test(name)))
  const [name] = [...best, ...names.filter(name => !OF_A_PERIPHERAL.test(name))]
  if (name === undefined) throw new HalError('ABSENT', 'the device has no LED of its own')
  return `${LEDS}/${name}`
}
