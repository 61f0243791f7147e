import type { Files } from '../hal/files/files.ts'
import type { System } from '../hal/os/system.ts'
import type { Authenticator } from './auth/authenticator.ts'
import type { Topic, TopicOptions } from './events/topic.ts'
import type { Route } from './http/route.ts'
import type { Log } from './log.ts'

/** A part of the API with state of its own, and the topic that clients follow it by. */
export interface Resource {
  readonly topic: Topic
  /** Where its events are read. */
  readonly eventsPath: string
  /** All routes but that one. */
  readonly routes: readonly Route[]
  /** Called before the service listens. */
  start(): Promise<void>
  /** Resolves when what is being changed is done. Called when no more requests come in. */
  stop(): Promise<void>
}

/** What resources are made from. */
export interface Shared {
  readonly system: System
  /** The service's own files. */
  readonly state: Files
  readonly authenticator: Authenticator
  readonly ring: Pick<TopicOptions, 'maxEvents' | 'maxBytes' | 'newId'>
  readonly log: Log
}
