import { HalError } from '../errors.ts'
import type { Stop } from '../files/watcher.ts'
import type { System } from './system.ts'

export interface LogQuery {
  /** The units whose records are read. */
  readonly units: readonly string[]
  /** Restricts the records to one of these units; undefined for all of them. */
  readonly unit: string | undefined
  /** How many of the last records to read. */
  readonly lines: number
  /** The least important priority, 0 to 7 (syslog(3)); undefined includes every record, even those without a priority. */
  readonly priority: number | undefined
}

export interface LogRecord {
  /** Microseconds since 1970. */
  readonly time: number
  /** Microseconds of the monotonic clock, which cannot be set. */
  readonly monotonic: number
  readonly unit: string
  /** 0 to 7. */
  readonly priority: number
  /** The message as logged: untrusted text of any length. */
  readonly message: string
  /** Identifies the record in the journal. */
  readonly cursor: string
}

/** Where systemd-journald(8) keeps its files. */
const FOLDERS = ['/var/log/journal', '/run/log/journal']
const FIELDS = ['MESSAGE', 'PRIORITY', '_SYSTEMD_UNIT', 'UNIT', 'OBJECT_SYSTEMD_UNIT']
/** The priority of messages that programs log without one. */
const INFO = 6
/** A year of more than four digits cannot be written (RFC 3339 §1): the clock, or the journal, was wrong. */
const MAX_TIME = Date.UTC(10_000, 0) * 1000
/** Without `--all`, journalctl(1) leaves out fields of 4 KiB and more. */
const TOO_LONG = '(a message of over 4 KiB)'

/**
 * Calls `take` with the last records of the journal, the newest first, until it returns false.
 * @throws {HalError} `ABSENT` if this is not the running system or it keeps no journal; `COMMAND_FAILED`.
 */
export async function readJournal(
  system: System,
  { units, unit, lines, priority }: LogQuery,
  take: (record: LogRecord) => boolean,
): Promise<void> {
  const filter = (unit === undefined ? units : [unit]).map(name => `--unit=${name}`)
  if (priority !== undefined) filter.push(`--priority=${priority}`)
  await readRecords(system, lines, filter, take, units)
}

/**
 * As `readJournal`, for the last records that match a filter of journalctl(1).
 * @param units Units whose own records must not be mistaken for records about other units.
 */
export async function readRecords(
  system: System,
  lines: number,
  filter: readonly string[],
  take: (record: LogRecord) => boolean,
  units: readonly string[] = [],
): Promise<void> {
  if (!system.isRunning) throw new HalError('ABSENT', 'this is not the running system')
  const isKept = await Promise.all(FOLDERS.map(folder => system.exists(folder)))
  if (!isKept.includes(true)) throw new HalError('ABSENT', 'no journal is kept')
  const output = ['--output=json', `--output-fields=${FIELDS.join()}`, '--reverse', '--quiet', '--no-pager']
  await system.readLines(['journalctl', ...output, `--lines=${lines}`, ...filter], line => {
    const record = recordIn(line, units)
    return record === undefined || take(record)
  })
}

/**
 * Calls `changed` after any unit has logged, at most four times a second: to notify watchers of its files, systemd-journald
 * truncates them to their own size 250 ms after a record.
 */
export async function watchJournal(system: System, changed: () => void): Promise<Stop> {
  const machineId = (await system.readText('/etc/machine-id').catch(() => undefined))?.trim()
  const stops = FOLDERS.map(folder => system.watch(`${folder}/${machineId}/system.journal`, changed))
  return () => {
    for (const stop of stops) stop()
  }
}

/** Parses a line of `journalctl --output=json`; undefined if it is malformed. */
function recordIn(line: string, units: readonly string[]): LogRecord | undefined {
  let fields: Readonly<Record<string, unknown>>
  try {
    fields = JSON.parse(line) ?? {}
  } catch {
    return undefined
  }
  const time = Number(fields.__REALTIME_TIMESTAMP)
  if (!(time >= 0 && time < MAX_TIME)) return undefined
  const priority = Number.parseInt(textOf(fields.PRIORITY ?? ''), 10)
  return {
    time,
    monotonic: Number(fields.__MONOTONIC_TIMESTAMP),
    unit: unitOf(fields, units),
    priority: priority >= 0 && priority <= 7 ? priority : INFO,
    message: 'MESSAGE' in fields ? textOf(fields.MESSAGE) : '',
    cursor: textOf(fields.__CURSOR),
  }
}

/**
 * The unit that a record is from or about. A unit's own records may name any other unit: systemd.journal-fields(7) vouches
 * only for fields with an underscore. journalctl matches the other fields only where systemd or root has set them.
 */
function unitOf(
  { _SYSTEMD_UNIT, UNIT, OBJECT_SYSTEMD_UNIT }: Readonly<Record<string, unknown>>,
  units: readonly string[],
): string {
  return units.find(unit => unit === _SYSTEMD_UNIT) ?? textOf(UNIT ?? OBJECT_SYSTEMD_UNIT ?? _SYSTEMD_UNIT ?? '')
}

/** The value of a field: text, bytes if it is not text, null if it is too long, or a list of these if it is repeated. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) return TOO_LONG
  return typeof value[0] === 'number' ? Buffer.from(value).toString() : value.map(textOf).join('\n')
}
