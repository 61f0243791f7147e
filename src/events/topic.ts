import type { Grant } from '../auth/grants.ts'
import { EventLog, type Position } from './event-log.ts'
import { Resync } from './resync.ts'

/** A resource that clients can follow. */
export interface TopicOptions {
  /** The first part of its events' names, such as `system`. */
  readonly name: string
  /** The grant that reads it. */
  readonly grant: Grant
  /** The whole resource as a JSON object, as of its latest event. */
  readonly snapshot: () => string
  /** Whether the next event is already on its way, so that readers may be woken once for both. */
  readonly isBusy?: () => boolean
  /** Events that are kept to resume from, and the bytes of their frames. No other topic can evict them. */
  readonly maxEvents: number
  readonly maxBytes: number
  /** Returns a UUID that was never used before, not even by an earlier run. */
  readonly newId: () => string
}

/**
 * The events of one resource, in an id space and a ring of their own. A change of the resource is appended here;
 * streams and polls are given a topic and never ask which one it is.
 */
export class Topic {
  readonly name: string
  readonly grant: Grant
  readonly isBusy: () => boolean
  readonly log: EventLog
  readonly resync: Resync

  constructor({ name, grant, snapshot, isBusy = () => false, ...ring }: TopicOptions) {
    this.name = name
    this.grant = grant
    this.isBusy = isBusy
    this.log = new EventLog(ring)
    this.resync = new Resync(this.log, `${name}.changed`, snapshot)
  }

  /** The id of the latest event, which is the ETag of the resource. Before the first event it is the start's own id. */
  get latestId(): string {
    return this.log.latestId
  }

  get head(): Position {
    return this.log.head
  }

  /**
   * Appends `NAME.changed`.
   * @param data The changed properties as a JSON object, each with its whole value.
   * @returns its id.
   */
  changed(data: string): string {
    return this.append('changed', data)
  }

  /** Appends `NAME.KIND` with the JSON text `data`, and returns its id. */
  append(kind: string, data: string): string {
    return this.log.append(`${this.name}.${kind}`, data)
  }

  /** Has every resync report an event that happened before this run, when no client had a cursor yet. */
  reportOnResync(kind: string, data: string): void {
    this.resync.report(`${this.name}.${kind}`, data)
  }

  /** Ends what `reportOnResync` began: it is not true any more. */
  forgetReports(): void {
    this.resync.forgetReports()
  }
}
