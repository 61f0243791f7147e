/** `pending` asks to be let in; `admitted` may come in, but is not there yet; `active` mirrors. */
export type SessionState = 'pending' | 'admitted' | 'active'

/** Why a session ended, or never began. */
export type EndReason = 'moderator' | 'timeout' | 'full' | 'shutdown'

/** A device that mirrors or wants to, as it describes itself: text from a stranger. What is not known is empty. */
export interface Device {
  /** `[a-z0-9-]{1,32}`, such as `airplay`. */
  readonly protocol: string
  readonly name: string
  readonly model: string
  readonly deviceId: string
  /** An IP address. */
  readonly address: string
}

/**
 * A program that mirrors, such as UxPlay. It tells `Sessions` which devices come and go, and carries out a moderator's decisions.
 */
export interface Engine {
  /** Carries one session at a time. */
  readonly isExclusive: boolean
  /** Lets a pending session in, and resolves when its device may come. Rejects if that fails. */
  admit(id: string): Promise<void>
  /** Denies a pending session or ends another, and resolves when its device is out. Rejects if that fails. */
  end(id: string, reason: EndReason): Promise<void>
}

/** Hears from an engine about its devices. */
export interface EngineHost {
  /** @returns the id of the session; undefined if there are too many. */
  enter(engine: Engine, device: Device, state: SessionState): string | undefined
  /** Moves a session on. Does nothing if it is gone. */
  move(id: string, state: SessionState): void
  /** Removes a session. Does nothing if it is gone. */
  leave(id: string): void
  /** Logs what an operator should know: a clause with a subject. */
  warn(what: string): void
}
