import type { System } from './system.ts'

/** One of the two systems. */
export interface Slot {
  /** The name that it is booted by, such as `A`. */
  readonly bootName: string
  /** Of the bundle that was installed there; undefined if none was. */
  readonly version: string | undefined
  /** `bad`: it is not to be started, or an installation there has not ended. */
  readonly state: 'good' | 'bad' | 'empty'
}

/** What a bundle says of itself. */
export interface BundleInfo {
  readonly version: string
  readonly compatible: string
}

export const REFUSALS = ['bundle-signature', 'bundle-compatible', 'bundle-damaged', 'bundle-too-old'] as const
/** Why a bundle is refused. */
export type Refusal = (typeof REFUSALS)[number]

/** What the installer does now. */
export interface Progress {
  readonly isInstalling: boolean
  readonly percent: number
  /** Why the last installation failed, in RAUC's words; empty if it did not. */
  readonly lastError: string
}

/** RAUC, by its D-Bus interface `de.pengutronix.rauc.Installer`. */
export interface RaucInstaller {
  /** The name of the slot that this system was started from; undefined if it was not started from one, or without RAUC. */
  bootSlot(): Promise<string | undefined>
  slots(): Promise<readonly Slot[]>
  /** The name of the slot that the next start begins with. */
  primary(): Promise<string | undefined>
  /** Checks the signature, the board and the version. @throws {RefusedBundle} */
  inspect(path: string): Promise<BundleInfo>
  /** Resolves when it is done. @throws {RefusedBundle} @throws {HalError} */
  install(path: string, percent: (percent: number) => void): Promise<void>
  /** Whether an installation is under way, and how far. */
  progress(): Promise<Progress>
  /** `active`: the next start begins with it. */
  mark(state: 'good' | 'bad' | 'active', bootName: string): Promise<void>
}

export type RaucOf = (system: System) => RaucInstaller
