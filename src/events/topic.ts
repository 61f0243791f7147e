import type { Grant } from '../auth/grants.ts'
import { EventLog, type Position } from './event-log.ts'
import { Resync } from './resync.ts'

/** A resource that clients can follow. */
export interface TopicOptions {
  /** The first part of the names of its events, such as `system`. */
  readonly name: string
  /** The grant for reading the resource. */
  readonly grant: Grant
  /** Returns the whole resource as a JSON object, as of its latest event. */
  readonly snapshot: () => string
  /** Reports whether another event is about to follow, so that readers may be woken once for both. */
  readonly isBusy?: () => boolean
  /** Maximum number of events kept to resume from, and maximum bytes of their frames. No other topic can evict them. */
  readonly maxEvents: number
  readonly maxBytes: number
  /** Returns a UUID that has never been used before, not even by an earlier run. */
  readonly newId: () => string
}

/**
 * The events of one resource, with their own ids and their own ring. Changes of the resource are appended here; streams and
 * polls work with any topic.
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

  /** The id of the latest event, which is the ETag of the resource. Before the first event, the initial id of the log. */
  get latestId(): string {
    return this.log.latestId
  }

  get head(): Position {
    return this.log.head
  }

  /**
   * Appends `NAME.changed`.
   * @param data The changed properties as a JSON object, each with its whole value.
   * @returns the id of the event.
   */
  changed(data: string): string {
    return this.append('changed', data)
  }

  /** Appends `NAME.KIND` with the JSON text `data`, and returns its id. */
  append(kind: string, data: string): string {
    return this.log.append(`${this.name}.${kind}`, data)
  }

  /** Makes every resync report an event that happened before this run, when no client had a cursor yet. */
  reportOnResync(kind: string, data: string): void {
    this.resync.report(`${this.name}.${kind}`, data)
  }

  /** Ends the effect of `reportOnResync`, because the report is out of date. */
  forgetReports(): void {
    this.resync.forgetReports()
  }
}
