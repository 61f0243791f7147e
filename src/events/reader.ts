import type { Credential } from '../auth/authenticator.ts'
import type { Refusal } from '../auth/challenge.ts'
import type { Topic } from './topic.ts'

/** Why a reader must end: its credential is no longer valid, or the service is stopping. */
export type End = Refusal | 'shutting down'

/** An open stream or a held poll: a cursor into the log of a topic, and the client to notify. */
export interface Reader {
  readonly topic: Topic
  readonly credential: Credential
  /** The network under which the client's address is counted. */
  readonly network: string
  /** Whether the reader is a held poll. */
  readonly isHeld: boolean
  /** Called when there are events after the cursor. */
  wake(): void
  /** Called at each heartbeat. */
  tick(): void
  /** Tells the client the reason, as far as its transport allows, and releases it. */
  end(why: End): void
}
