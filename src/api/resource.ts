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

/** A part of the API with its own state, and the topic by which clients follow that state. */
export interface Resource {
  readonly topic: Topic
  /** The path of the event route. */
  readonly eventsPath: string
  /** The schema of the data of each event, by its name. */
  readonly events: Readonly<Record<string, TSchema>>
  /** All other routes. */
  readonly routes: readonly Route[]
  /** Throws the problem that answers every route on a device without this resource. Absent if every device has it. */
  readonly requirePresent?: () => void
  /** Throws the problem that answers a factory reset while it must wait. */
  readonly requireResettable?: () => void
  /** Routes on the engines' socket, which need no credential. */
  readonly engineRoutes?: readonly OpenRoute[]
  /** Returns numbers, by name, to add to the status of the device. */
  readonly counts?: () => Readonly<Record<string, number>>
  /** Returns families to add to the metrics. */
  readonly families?: () => readonly Family[]
  /** Called before the service listens. */
  start(): Promise<void>
  /** Ends the responses that are kept open for engines. */
  closeEngines?(): void
  /** Resolves once changes in progress are done. Called when no more requests arrive. */
  stop(): Promise<void>
}

/** What resources are built from. */
export interface Shared {
  readonly system: System
  readonly engines: readonly Engine[]
  readonly authenticator: Authenticator
  /** The configuration, on which other resources may depend. */
  readonly configuration: SystemStore
  readonly clock: Clock
  readonly ring: Pick<TopicOptions, 'maxEvents' | 'maxBytes' | 'newId'>
  readonly log: Log
}
