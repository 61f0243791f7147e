import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { CommandFailed } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/system.ts'

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

  readonly systemctl: Run = async argv => {
    const [, verb = '', unit = ''] = argv
    if (this.broken === verb) throw new CommandFailed('systemctl failed with status 1')
    const starts = this.#active.get(unit)
    if (verb === 'enable') this.#enable(unit)
    else if (verb === 'disable') this.#disable(unit)
    else if (verb === 'stop') this.#active.delete(unit)
    else if (verb === 'restart' || (verb === 'try-restart' && starts !== undefined)) {
      this.#active.set(unit, (starts ?? 0) + 1)
      this.onStart(unit)
    } else if (verb !== 'try-restart') throw new CommandFailed('systemctl failed with status 1')
    return ''
  }

  #enable(unit: string): void {
    const path = `usr/lib/systemd/system/${unit}`
    const [, targets = ''] = /^WantedBy=(.*)$/m.exec(readFileSync(join(this.#root, path), 'utf8')) ?? []
    for (const target of targets.split(' ').filter(Boolean)) {
      const folder = join(this.#root, 'etc/systemd/system', `${target}.wants`)
      mkdirSync(folder, { recursive: true })
      rmSync(join(folder, unit), { force: true })
      symlinkSync(`/${path}`, join(folder, unit))
    }
  }

  #disable(unit: string): void {
    const folder = join(this.#root, 'etc/systemd/system')
    for (const name of readdirSync(folder))
      if (name.endsWith('.wants')) rmSync(join(folder, name, unit), { force: true })
  }
}
