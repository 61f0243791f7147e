import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { HalError } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/os/command.ts'

const LINKS = 'etc/systemd/system'
const UNITS = 'usr/lib/systemd/system'

/** systemctl(1) of a running system whose files are under a root: enables units by links, and knows which of them run. */
export class FakeSystemd {
  readonly #root: string
  /** How often each unit that runs was started. */
  readonly #active = new Map<string, number>()
  readonly #failed = new Set<string>()
  /** A verb of systemctl that fails. */
  broken: string | undefined
  /** Called when a unit starts. If it throws, the start fails. */
  onStart: (unit: string) => void = () => undefined

  constructor(root: string, active: readonly string[] = []) {
    this.#root = root
    for (const unit of active) this.#active.set(unit, 1)
  }

  /** `uxplay.service runs, started 2 times`: a line for each unit that runs. */
  get text(): string {
    return Array.from(this.#active, ([unit, starts]) => `${unit} runs, started ${starts} times\n`).join('')
  }

  /** The names of all services and sockets, and of the instances that are enabled. */
  get units(): readonly string[] {
    const folders = readdirSync(join(this.#root, LINKS)).filter(name => /\.wants$/.test(name))
    const instances = folders
      .flatMap(folder => readdirSync(join(this.#root, LINKS, folder)))
      .filter(name => /@[^.]+\.service$/.test(name) && existsSync(this.#file(name)))
    return [...readdirSync(join(this.#root, UNITS)), ...instances].filter(name => /[^@]\.(service|socket)$/.test(name))
  }

  isActive(unit: string): boolean {
    return this.#active.has(unit)
  }

  /** The text of a unit file, with the name of an instance filled in. */
  read(unit: string): string {
    const [, instance = ''] = /@(.*)\./.exec(unit) ?? []
    return readFileSync(this.#file(unit), 'utf8').replaceAll(/%[iI]/g, instance)
  }

  /** An instance has the file of its template. */
  #file(unit: string): string {
    return join(this.#root, UNITS, unit.replace(/@.*\./, '@.'))
  }

  readonly systemctl: Run = async ([, verb = '', ...units]) => {
    if (verb === 'show') return this.#show(units)
    for (const unit of units) {
      if (verb === this.broken || verb === `try-${this.broken}` || !existsSync(this.#file(unit))) throw failure()
      if (verb === 'stop') this.#stop(unit)
      else if (verb === 'disable') for (const link of this.#present(unit)) rmSync(link)
      else if (this.#isMasked(unit)) throw failure()
      else if (verb === 'enable') this.#enable(unit)
      else if (verb === 'restart' || (verb === 'try-restart' && this.isActive(unit))) this.#start(unit)
      else if (verb === 'try-restart') continue
      else throw failure()
    }
    return ''
  }

  /** Runs the enabled units, and nothing else. */
  boot(): void {
    this.#active.clear()
    this.#failed.clear()
    for (const unit of this.units) if (this.#isEnabled(unit)) this.#start(unit)
  }

  #show([property, value, unit = '', ...more]: readonly string[]): string {
    if (property === '--property=ActiveState,InvocationID,Job' && this.broken !== 'show')
      return [value, unit, ...more]
        .filter(Boolean)
        .map(name => this.#runOf(name))
        .join('\n')
    if (property !== '--property=ActiveState,SubState' || value !== '--value' || this.broken === 'show') throw failure()
    return this.#failed.has(unit) ? 'failed\nfailed\n' : this.isActive(unit) ? 'active\nrunning\n' : 'inactive\ndead\n'
  }

  /** The properties of a unit in systemd's order, which is not that of the command. */
  #runOf(unit = ''): string {
    const state = this.#failed.has(unit) ? 'failed' : this.isActive(unit) ? 'active' : 'inactive'
    return `ActiveState=${state}\nJob=\nInvocationID=${this.#active.get(unit) ?? ''}\n`
  }

  #start(unit: string): void {
    const starts = this.#active.get(unit) ?? 0
    this.#stop(unit)
    try {
      this.onStart(unit)
    } catch {
      this.#failed.add(unit)
      throw failure()
    }
    this.#active.set(unit, starts + 1)
  }

  #stop(unit: string): void {
    this.#active.delete(unit)
    this.#failed.delete(unit)
  }

  #enable(unit: string): void {
    for (const link of this.#links(unit)) {
      mkdirSync(dirname(link), { recursive: true })
      rmSync(link, { force: true })
      symlinkSync(`/${UNITS}/${unit}`, link)
    }
  }

  #isEnabled(unit: string): boolean {
    return this.#present(unit).length > 0 && !this.#isMasked(unit)
  }

  #isMasked(unit: string): boolean {
    const at = join(this.#root, LINKS, unit)
    return lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink() === true && readlinkSync(at) === '/dev/null'
  }

  /** The links to a unit, including those made by hand. */
  #present(unit: string): readonly string[] {
    const folders = readdirSync(join(this.#root, LINKS)).filter(name => /\.(wants|requires)$/.test(name))
    const links = folders.map(folder => join(this.#root, LINKS, folder, unit))
    return [...new Set([...this.#links(unit), ...links])].filter(link => lstatSync(link, { throwIfNoEntry: false }))
  }

  /** The links of an enabled unit, by its [Install] section. */
  #links(unit: string): readonly string[] {
    const text = this.read(unit)
    const values = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1]?.split(' ') ?? []
    const links = [
      ...values('WantedBy').map(target => `${target}.wants/${unit}`),
      ...values('RequiredBy').map(target => `${target}.requires/${unit}`),
      ...values('Alias'),
    ]
    return links.map(link => join(this.#root, LINKS, link))
  }
}

function failure(): HalError {
  return new HalError('COMMAND_FAILED', 'systemctl failed with status 1')
}
