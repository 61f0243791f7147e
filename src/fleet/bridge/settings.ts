import type { Secret } from '../fleet-file.ts'

/** The commands that a device can be given over MQTT, with the grant that each needs there. */
export const COMMANDS = {
  identify: 'admin:w',
  'restart-receiver': 'admin:w',
  admit: 'moderator:w',
  deny: 'moderator:w',
  end: 'moderator:w',
} as const
export type CommandName = keyof typeof COMMANDS

export function isCommandName(name: string): name is CommandName {
  return Object.hasOwn(COMMANDS, name)
}

/** The section `bridge` of a fleet file. Paths are absolute. */
export interface BridgeSettings {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
  /** Certificates of the authority that signed the broker's; undefined for those that Node knows. */
  readonly ca: string | undefined
  readonly user: string | undefined
  readonly password: Secret | undefined
  /** The first levels of each topic. */
  readonly prefix: string
  /** The first levels of the topics on which Home Assistant looks for devices; empty for none. */
  readonly discovery: string
  readonly allow: readonly CommandName[]
  /** The issuer that signs the tokens for the devices; undefined if the credentials of the fleet file are used. */
  readonly issuer: { readonly name: string; readonly key: string } | undefined
}

/** Levels of a topic without wildcards, and with only characters that Home Assistant accepts in an ID. */
export const TOPIC = /^[A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+){0,3}$/
export const MAX_TOPIC = 64
