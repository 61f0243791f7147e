/** `pending` asks to be let in; `admitted` may come in, but is not there yet; `active` mirrors. */
export type SessionState = 'pending' | 'admitted' | 'active'

/** Why a session ended, or never began. */
export type EndReason = 'moderator' | 'timeout' | 'full' | 'shutdown'

/** A device that mirrors or wants to, as it describes itself: text from a stranger. Unknown properties are empty. */
export interface Device {
  /** `[a-z0-9-]{1,32}`, such as `airplay`. */
  readonly protocol: string
  readonly name: string
  readonly model: string
  readonly deviceId: string
  /** An IP address. */
  readonly address: string
}

/** Runs sessions, and carries out the decisions about them. */
export interface Carrier {
  /** Carries one session at a time. */
  readonly isExclusive: boolean
  /** Lets a pending session in, and resolves when its device may come. Rejects if that fails. */
  admit(id: string): Promise<void>
  /** Denies a pending session or ends any other, and resolves when its device is out. Rejects if that fails. */
  end(id: string, reason: EndReason): Promise<void>
}

/** A program's own option for whether devices must be let in. */
export interface ApprovalOption {
  /** The files that `write` changes. */
  readonly files: readonly string[]
  /** Files that `read` depends on besides `files`. */
  readonly sources: readonly string[]
  /** Whether devices must be let in, whoever set the option; undefined if the program is not installed. */
  read(): Promise<boolean | undefined>
  /** Makes the option durable in `files`, if the program is installed. @returns whether any file was changed. */
  write(isRequired: boolean): Promise<boolean>
}

/** A program that mirrors, such as UxPlay. It knows neither this service nor moderators, so it is watched. */
export interface Engine extends Carrier {
  /** The services that it consists of, such as `uxplay.service`, in the order in which they are started. */
  readonly units: readonly string[]
  readonly approval: ApprovalOption
  /** A line of its log without a PIN, for those who may read the log but not the screen. */
  withoutPin(line: string): string
  /** Makes the running program use its changed approval option. Calling it again is harmless. */
  approvalChanged(): Promise<void>
  /** Begins to tell `host` which devices come and go, and what they ask for. Called only for the running system. */
  start(host: EngineHost, showPin: ShowPin): Promise<void>
  /** Resolves when work in progress is done. Devices go on mirroring. Harmless without `start`. */
  stop(): Promise<void>
}

/** Shows the PIN that a device asks for to whoever holds it; undefined: none does any more. */
export type ShowPin = (pin: string | undefined) => void

/** Receives an engine's reports about its devices. */
export interface EngineHost {
  /** @returns the id of the session; undefined if there are too many. */
  enter(carrier: Carrier, device: Device, state: SessionState): string | undefined
  /** Moves a session on. Does nothing if it is gone. */
  move(id: string, state: SessionState): void
  /** Removes a session. Does nothing if it is gone. */
  leave(id: string): void
  /** Logs what an operator should know: a clause with a subject. */
  warn(what: string): void
}
