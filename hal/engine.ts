/** A `pending` session asks to be let in; an `admitted` one may connect, but has not yet; an `active` one mirrors. */
export type SessionState = 'pending' | 'admitted' | 'active'

/** Why a session ended, or never began. */
export type EndReason = 'moderator' | 'timeout' | 'full' | 'shutdown'

/** A device that mirrors or asks to, as it describes itself: text from a stranger. Unknown properties are empty. */
export interface Device {
  /** `[a-z0-9-]{1,32}`, such as `airplay`. */
  readonly protocol: string
  readonly name: string
  readonly model: string
  readonly deviceId: string
  /** An IP address. */
  readonly address: string
}

/** Runs sessions and carries out the decisions about them. */
export interface Carrier {
  /** Whether it runs only one session at a time. */
  readonly isExclusive: boolean
  /** Lets a pending session in, and resolves once its device may connect. Rejects if that fails. */
  admit(id: string): Promise<void>
  /**
   * Denies a pending session or ends any other, and resolves once its device is disconnected. Rejects if that fails. After a
   * timeout, a session whose device has come in the meantime, or is about to, may stay.
   */
  end(id: string, reason: EndReason): Promise<void>
}

/** The option of a program that decides whether devices must be let in. */
export interface ApprovalOption {
  /** The files that `write` changes. */
  readonly files: readonly string[]
  /** Files that `read` depends on besides `files`. */
  readonly sources: readonly string[]
  /** Returns whether devices must be let in, whoever set the option; undefined if the program is not installed. */
  read(): Promise<boolean | undefined>
  /** Makes the option durable in `files` if the program is installed. @returns whether any file changed. */
  write(isRequired: boolean): Promise<boolean>
}

/** A program that mirrors, such as UxPlay. It knows neither this service nor moderators, so the service watches it. */
export interface Engine extends Carrier {
  /** The services that make up the program, such as `uxplay.service`, in the order in which they are started. */
  readonly units: readonly string[]
  readonly approval: ApprovalOption
  /** Removes the PIN from a line of the program's log, for people who may read the log but do not see the screen. */
  withoutPin(line: string): string
  /** Makes the running program apply its changed approval option. Calling it again is harmless. */
  approvalChanged(): Promise<void>
  /** Starts reporting to `host` which devices come and go, and what they ask for. Called only for the running system. */
  start(host: EngineHost, showPin: ShowPin): Promise<void>
  /** Resolves once work in progress is done. Devices keep mirroring. Harmless without `start`. */
  stop(): Promise<void>
}

/** Shows, on the screen, the PIN that a device must enter; undefined if no device needs one any more. */
export type ShowPin = (pin: string | undefined) => void

/** Receives an engine's reports about its devices. */
export interface EngineHost {
  /** Whether there are too many sessions for a device that asks. */
  readonly isFull: boolean
  /** Adds a session. @returns its id; undefined if there are too many. */
  enter(carrier: Carrier, device: Device, state: SessionState): string | undefined
  /**
   * Changes the state of a session. Does nothing if the session is gone.
   * @param device Changed properties of the device, which has connected again.
   */
  move(id: string, state: SessionState, device?: Partial<Device>): void
  /** Removes a session. Does nothing if it is gone. */
  leave(id: string): void
  /** Logs what an operator should know. @param what A clause with a subject. */
  warn(what: string): void
}
