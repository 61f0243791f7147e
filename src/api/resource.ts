import type { TSchema } from 'typebox/type'
import type { Engine } from '../../hal/engine.ts'
import type { System } from '../../hal/os/system.ts'
import type { Authenticator } from '../auth/authenticator.ts'
import type { Clock } from '../clock.ts'
import type { Topic, TopicOptions } from '../events/topic.ts'
import type { OpenRoute, Route } from '../http/route.ts'
import type { Log } from '../log.ts'
import type { Family } from '../metrics/exposition.ts'
import type { SystemStore } from '../system/store.ts'

/** A part of the API with state of its own, and the topic that clients follow it by. */
export interface Resource {
  readonly topic: Topic
  /** Where its events are read. */
  readonly eventsPath: string
  /** The schema of the data of each event, by its name. */
  readonly events: Readonly<Record<string, TSchema>>
  /** All its other routes. */
  readonly routes: readonly Route[]
  /** Throws the problem that all its routes are answered with where the device does not have it. Absent if each device does. */
  readonly requirePresent?: () => void
  /** Throws the problem that a factory reset is answered with while it must wait. */
  readonly requireResettable?: () => void
  /** Routes on the socket of the engines, where no credential is asked for. */
  readonly engineRoutes?: readonly OpenRoute[]
  /** Adds these numbers, by name, to the status of the device. */
  readonly counts?: () => Readonly<Record<string, number>>
  /** Adds these families to the metrics. */
  readonly families?: () => readonly Family[]
  /** Called before the service listens. */
  start(): Promise<void>
  /** Ends the answers that are kept open for engines. */
  closeEngines?(): void
  /** Resolves when changes in progress are done. Called when no more requests come in. */
  stop(): Promise<void>
}

/** The parts that resources are made from. */
export interface Shared {
  readonly system: System
  readonly engines: readonly Engine[]
  readonly authenticator: Authenticator
  /** The configuration, which other resources may depend on. */
  readonly configuration: SystemStore
  readonly clock: Clock
  readonly ring: Pick<TopicOptions, 'maxEvents' | 'maxBytes' | 'newId'>
  readonly log: Log
}
