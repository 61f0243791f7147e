import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { HalError } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/os/command.ts'

const LINKS = 'etc/systemd/system'
const UNITS = 'usr/lib/systemd/system'

/** systemctl(1) of a running system whose files are under a root: enables by links, and keeps what runs. */
export class FakeSystemd {
  readonly #root: string
  readonly #active = new Map<string, number>()
  /** A verb that fails. */
  broken: string | undefined
  /** Called where a unit starts. */
  onStart: (unit: string) => void = () => undefined

  constructor(root: string, active: readonly string[] = []) {
    this.#root = root
    for (const unit of active) this.#active.set(unit, 1)
  }

  /** `uxplay.service runs, started 2 times`: a line for each unit that runs. */
  get text(): string {
    return Array.from(this.#active, ([unit, starts]) => `${unit} runs, started ${starts} times\n`).join('')
  }

  isActive(unit: string): boolean {
    return this.#active.has(unit)
  }

  readonly systemctl: Run = async argv => {
    const [, verb = '', unit = ''] = argv
    if (this.broken === verb || !existsSync(join(this.#root, UNITS, unit)))
      throw new HalError('COMMAND_FAILED', 'systemctl failed with status 1')
    if (verb === 'enable') this.#enable(unit)
    else if (verb === 'disable') for (const link of this.#links(unit)) rmSync(link, { force: true })
    else if (verb === 'stop') this.#active.delete(unit)
    else if (verb === 'restart' || (verb === 'try-restart' && this.isActive(unit))) this.#start(unit)
    else if (verb !== 'try-restart') throw new HalError('COMMAND_FAILED', 'systemctl failed with status 1')
    return ''
  }

  /** Runs what is enabled, and nothing else. */
  boot(): void {
    this.#active.clear()
    for (const unit of readdirSync(join(this.#root, UNITS)))
      if (this.#links(unit).some(link => lstatSync(link, { throwIfNoEntry: false }))) this.#start(unit)
  }

  #start(unit: string): void {
    this.#active.set(unit, (this.#active.get(unit) ?? 0) + 1)
    this.onStart(unit)
  }

  #enable(unit: string): void {
    for (const link of this.#links(unit)) {
      mkdirSync(dirname(link), { recursive: true })
      rmSync(link, { force: true })
      symlinkSync(`/${UNITS}/${unit}`, link)
    }
  }

  /** The links of an enabled unit, by its [Install] section. */
  #links(unit: string): readonly string[] {
    const text = readFileSync(join(this.#root, UNITS, unit), 'utf8')
    const values = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1]?.split(' ') ?? []
    const links = [...values('WantedBy').map(target => `${target}.wants/${unit}`), ...values('Alias')]
    return links.map(link => join(this.#root, LINKS, link))
  }
}
