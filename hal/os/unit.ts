import { HalError } from '../errors.ts'
import type { System } from './system.ts'
import { ADMIN_UNITS, findBuiltIn, installLinks, isLinkTo, readUnitFiles, type UnitFile } from './unit-files.ts'

const SOCKET = /\.socket$/
/** Values of ActiveState. */
const STOPPED: readonly string[] = ['inactive', 'deactivating']
/** The SubState of a unit that has ended, and that systemd starts again after a pause (RestartSec=). */
const AUTO_RESTART = 'auto-restart'
/** Milliseconds between polls of a unit that is being started, and the limit on polls. */
const STARTING_POLL_MS = 100
const STARTING_POLLS = 50
/** A drop-in without effect, as a reminder to enable the socket again. `systemctl cat` shows it. */
const NOTE_FILE = '50-receiverd.conf'
const NOTE = '# receiverd disabled this socket, and enables it again rather than its service.\n'

/**
 * A service that can be enabled and disabled. It may be installed under one of several names, and it may be started on
 * demand by the socket of its name (systemd.socket(5)): it is enabled if the service or the socket is.
 */
export class Unit {
  readonly #system: System
  /** Each service before its socket. */
  readonly #names: readonly string[]
  /** The installed units, and the links that enabling each of them makes, as they were last read. */
  #units: readonly UnitFile[] = []
  #installs: ReadonlyMap<string, readonly string[]> | undefined

  /** @param services Its names, such as `ssh.service`. If several are installed, all count, and the first is enabled. */
  constructor(system: System, ...services: readonly string[]) {
    this.#system = system
    this.#names = services.flatMap(service => [service, service.replace(/\.service$/, '.socket')])
  }

  /** The files that `setEnabled` changes, known once any of the methods below has run. */
  get files(): readonly string[] {
    return [...this.links, ...choices(this.#units).map(noteOf)]
  }

  /** The paths in `files` that are links to units. */
  get links(): readonly string[] {
    const links = this.#units.flatMap(unit => unit.links)
    return [...new Set([...links, ...[...(this.#installs?.values() ?? [])].flat()])]
  }

  /** Whether a path may have been in `files`: disabling a unit also removes links that were made by hand. */
  mayHave(path: string): boolean {
    return this.#names.some(name => isLinkTo(name, path))
  }

  /** Paths that it reads besides `files`: the links that mask it, and the folders that may hold a link to it. */
  get sources(): readonly string[] {
    return [`${ADMIN_UNITS}/*`]
  }

  async isInstalled(): Promise<boolean> {
    return (await this.#readUnits()).length > 0
  }

  /** Whether the unit starts at boot. */
  async isEnabled(): Promise<boolean> {
    return this.#isEnabled(await this.#installed())
  }

  /** Why it cannot be enabled or disabled; undefined if it can. */
  async whyNot(enabled: boolean): Promise<string | undefined> {
    const units = await this.#readUnits()
    if (enabled === (await this.#isEnabled(units))) return undefined
    if (!enabled) {
      const builtIn = await findBuiltIn(this.#system, units)
      return builtIn && `${builtIn.name} is enabled by the system image and can only be masked`
    }
    if (units.some(unit => this.#canBeEnabled(unit))) return undefined
    const masked = units.find(unit => unit.isMasked)
    return masked ? `${masked.name} is masked` : `${units[0]?.name} has no [Install] section`
  }

  /** @returns whether any file was changed. */
  async setEnabled(enabled: boolean): Promise<boolean> {
    const units = await this.#readUnits()
    if (enabled === (await this.#isEnabled(units))) return false
    if (!enabled) await this.#note(units)
    const names = enabled ? [await this.#preferred(units)] : units.filter(isEnabled).map(({ name }) => name)
    if (this.#system.isRunning) await this.#system.run(['systemctl', enabled ? 'enable' : 'disable', ...names])
    else for (const unit of units) if (names.includes(unit.name)) await this.#setLinks(unit, enabled)
    return true
  }

  /**
   * Makes the running system follow a change: starts or stops the unit, or restarts it to read its rewritten files. A unit that
   * was stopped by hand is started only when it becomes enabled.
   */
  activate(enabled: boolean, wasEnabled: boolean, isRewritten = false): Promise<void> {
    return this.#system.unitJobs.run(async () => {
      if (enabled !== wasEnabled) await this.#startOrStop(enabled)
      else if (isRewritten) await this.#restart()
    })
  }

  async #startOrStop(enabled: boolean): Promise<void> {
    const units = (await this.#installed()).filter(({ isMasked }) => !isMasked)
    const started = units.find(isEnabled)
    // Sockets first: a client that connects in between would start the service again.
    const stopped = units.map(({ name }) => name).sort((a, b) => Number(SOCKET.test(b)) - Number(SOCKET.test(a)))
    if (!enabled) await this.#system.run(['systemctl', 'stop', ...stopped])
    else if (started) await this.#system.run(['systemctl', 'restart', started.name])
  }

  /**
   * Restarts the service unless it is stopped or stopping, because a restart would cancel the stop. A service that failed
   * because of a change must start again when the change is undone, which `systemctl try-restart` does not do.
   * @param isNeeded Called only while the service is active: a service that was starting may have read the changed files
   * already.
   * @returns whether there was anything to restart.
   */
  restart(isNeeded = async () => true): Promise<boolean> {
    return this.#system.unitJobs.run(() => this.#restart(isNeeded))
  }

  async #restart(isNeeded = async () => true): Promise<boolean> {
    let isRestarted = false
    for (const { name, isMasked } of await this.#installed()) {
      if (isMasked || SOCKET.test(name)) continue
      const [state, step] = await this.#stateOnceStarted(name)
      if (STOPPED.includes(state)) continue
      isRestarted = true
      // systemd will start it in a moment, with its current files.
      if (step === AUTO_RESTART || (state === 'active' && !(await isNeeded()))) continue
      // If somebody stops it in the meantime, it must stay stopped.
      await this.#system.run(['systemctl', state === 'active' ? 'try-restart' : 'restart', name])
    }
    return isRestarted
  }

  /** ActiveState and SubState of a unit. Waits while the unit is starting, because `try-restart` would do nothing. */
  async #stateOnceStarted(name: string): Promise<readonly [state: string, step: string]> {
    for (let polls = 0; ; polls++) {
      const output = await this.#system.run(['systemctl', 'show', '--property=ActiveState,SubState', '--value', name])
      const [state = '', step = ''] = output.trim().split('\n')
      if (state !== 'activating' || step === AUTO_RESTART || polls === STARTING_POLLS) return [state, step]
      await new Promise(resolve => setTimeout(resolve, STARTING_POLL_MS))
    }
  }

  /**
   * Does the work of `systemctl enable` and `disable` on another root. With `--root`, systemctl(1) follows linked folders as
   * the host does, and so leaves that root.
   */
  async #setLinks({ name, path, links, isMasked }: UnitFile, enabled: boolean): Promise<void> {
    if (enabled && isMasked) throw new HalError('COMMAND_FAILED', `${name} is masked`)
    const installs = this.#installs?.get(name) ?? []
    if (enabled) for (const link of installs) await this.#system.writeLink(link, path)
    else
      for (const link of new Set([...links, ...installs]))
        if ((await this.#system.linkTarget(link)) !== undefined) await this.#system.remove(link)
  }

  async #isEnabled(units: readonly UnitFile[]): Promise<boolean> {
    return units.some(isEnabled) || (await findBuiltIn(this.#system, units)) !== undefined
  }

  #canBeEnabled({ name, isMasked }: UnitFile): boolean {
    return !isMasked && (this.#installs?.get(name) ?? []).length > 0
  }

  /** The installed units. The [Install] sections, which take longer, are read only once. */
  async #installed(): Promise<readonly UnitFile[]> {
    return this.#installs === undefined ? this.#readUnits() : this.#findUnits()
  }

  /** As `#installed`, but reads the [Install] sections again. */
  async #readUnits(): Promise<readonly UnitFile[]> {
    const units = await this.#findUnits()
    const installs = units.map(async unit => [unit.name, await installLinks(this.#system, unit)] as const)
    this.#installs = new Map(await Promise.all(installs))
    return units
  }

  async #findUnits(): Promise<readonly UnitFile[]> {
    this.#units = await readUnitFiles(this.#system, this.#names)
    return this.#units
  }

  /** Which unit to enable: a service, unless its socket was in use before. */
  async #preferred(units: readonly UnitFile[]): Promise<string> {
    for (const socket of choices(units))
      if (
        this.#canBeEnabled(socket) &&
        (await this.#system.readText(noteOf(socket)).catch(() => undefined)) !== undefined
      )
        return socket.name
    return (units.find(unit => this.#canBeEnabled(unit)) ?? units[0])?.name ?? ''
  }

  /** Remembers which unit is about to be disabled, if there is a choice. */
  async #note(units: readonly UnitFile[]): Promise<void> {
    for (const socket of choices(units)) {
      const note = noteOf(socket)
      const isInUse = isEnabled(socket) && !units.some(unit => !SOCKET.test(unit.name) && isEnabled(unit))
      if (isInUse) await this.#system.writeAtomic(note, NOTE)
      else if (await this.#system.exists(note)) await this.#system.remove(note)
    }
  }
}

/** Whether a link in /etc pulls the unit in. */
function isEnabled({ isMasked, links }: UnitFile): boolean {
  return !isMasked && links.length > 0
}

/** The sockets that could be enabled instead of a service. */
function choices(units: readonly UnitFile[]): readonly UnitFile[] {
  return units.length > 1 ? units.filter(({ name }) => SOCKET.test(name)) : []
}

function noteOf({ name }: UnitFile): string {
  return `${ADMIN_UNITS}/${name}.d/${NOTE_FILE}`
}
