/** Limits and intervals. `TABLE` has those that an operator may want to change. */

/** Bytes of a request's line and headers. The longest token (4,096) fits, also as base64 or in a query. */
export const MAX_HEAD_BYTES = 8 * 1024
/** Headers of a request. */
export const MAX_HEADERS = 100
/** Characters of a parameter in a path, before it is decoded. */
export const MAX_PATH_PARAMETER = 256
/** Milliseconds for the head of a request to arrive, so that a slow sender cannot hold a connection. */
export const HEAD_TIMEOUT_MS = 10_000
/** Milliseconds for a whole request, body included. */
export const REQUEST_TIMEOUT_MS = 15_000
/** Milliseconds between checks of the two timeouts, which wake an idle device: 10 s can become 20. */
export const TIMEOUT_CHECK_MS = 10_000
/** The same on the engines' socket, where only programs of the device can connect. */
export const ENGINE_TIMEOUT_CHECK_MS = 60_000
/** Bytes of a request's body. A whole configuration is under 8 KiB. */
export const MAX_BODY_BYTES = 64 * 1024
/** Milliseconds without a byte of a streamed body, and for all of it. */
export const UPLOAD_STALL_MS = 60_000
export const UPLOAD_TOTAL_MS = 6 * 60 * 60 * 1000
/** Milliseconds from a connection's last response until it is closed, for a client that sends on instead of closing it. */
export const LINGER_MS = 1_000
/** Bytes of a bundle that may wait to be made durable: a slow card takes a second for this many. */
export const BUNDLE_SYNC_BYTES = 16 * 1024 * 1024
/** Bytes that a bundle leaves free, so that a setting can still be saved. */
export const BUNDLE_RESERVE_BYTES = 16 * 1024 * 1024
/** Milliseconds for which a partially received bundle is kept. */
export const BUNDLE_KEPT_MS = 60 * 60 * 1000
/** Responses on a connection that its client has not read. Beyond that, its next requests wait. */
export const MAX_UNSENT_ANSWERS = 32
/** Bytes of such responses, beyond what the kernel buffers. */
export const MAX_UNSENT_BYTES = 16 * 1024
/** Requests waiting for their turn, on all connections together: 7 MB. */
export const MAX_DEFERRED = 4_096
/** Clients whose warnings are counted individually. */
export const MAX_WARNED_CLIENTS = 64
/** Milliseconds between two log lines with warnings about the same client. */
export const CLIENT_WARNING_MS = 60_000
/** Characters of the name of a token's holder. */
export const MAX_SUBJECT_LENGTH = 64
/** Characters of a credential as presented. */
export const MAX_TOKEN_LENGTH = 4_096
/** Number of verified tokens that are cached. */
export const TOKEN_CACHE_SIZE = 256
/** Issuers: enough for the owner of a fleet, and few enough for a person to read. */
export const MAX_ISSUERS = 16
/** Bytes of an issuer's file. */
export const MAX_ISSUER_BYTES = 8 * 1024
/** Lifetime of an issuer's tokens, in seconds. */
export const MIN_TOKEN_AGE_S = 60
export const MAX_TOKEN_AGE_S = 30 * 24 * 60 * 60
export const DEFAULT_TOKEN_AGE_S = 24 * 60 * 60
/** Seconds by which the clock of an issuer may be ahead of the device's. */
export const MAX_CLOCK_AHEAD_S = 60
/** Signatures of issuers that are verified at once: two of Node's four threads are left for everything else. */
export const MAX_VERIFYING = 2
/** Signatures that may wait for verification, and the maximum waiting or running for one address. */
export const MAX_WAITING_SIGNATURES = 64
export const MAX_SIGNATURES_PER_ADDRESS = 8
/** PATCH requests that may wait for earlier ones. */
export const MAX_WAITING_CHANGES = 128
/** Bytes of encoded SSE frames in the ring, regardless of their number. */
export const MAX_KEPT_BYTES = 1024 * 1024
/** Bytes that a reader takes from the ring at once. A client that does not read can hold on to this much. */
export const MAX_BATCH_BYTES = 64 * 1024
/** Seconds for which a client may ask to hold a poll (RFC 7240 `wait`). */
export const MAX_HOLD_S = 120
/** Milliseconds until an idle connection is closed: longer than any poll is held. */
export const IDLE_MS = (MAX_HOLD_S + 30) * 1000
/** Connections that the kernel completes before they are accepted. Node's 511 drops SYNs when thousands arrive at once. */
export const LISTEN_BACKLOG = 4_096
/** Milliseconds between two reads of a setting that another program keeps changing. */
export const SETTLE_MS = 100
/** Milliseconds between polls of files, in case an inotify(7) watch reports nothing or could not be created. */
export const POLL_MS = 60_000
/** Milliseconds for both files of a certificate to be replaced. */
export const CERTIFICATE_SETTLE_MS = 1_000
/** Addresses in a certificate. */
export const MAX_CERTIFICATE_ADDRESSES = 32
/** Names that a client may choose in a certificate request. */
export const MAX_REQUESTED_NAMES = 16
/** Certificates that may be made per day, however often addresses change. */
export const MAX_RENEWALS_PER_DAY = 24
/** Sessions: more devices than a room has, and few enough for a person to read. */
export const MAX_SESSIONS = 64
/** Connections on the engines' socket: each session is one. */
export const MAX_ENGINE_CONNECTIONS = 2 * MAX_SESSIONS
/** Milliseconds for an engine to carry out a decision. */
export const DECISION_MS = 5_000
/** Milliseconds between two events about sessions, however often they change. */
export const PUBLISH_MS = 50
/** Milliseconds between two events about the firmware update, however fast it progresses. */
export const UPDATE_PUBLISH_MS = 1_000
/** Milliseconds between two log lines about devices that were turned away. */
export const FULL_LOG_MS = 60_000
/** Seconds for which a change may wait for confirmation. */
export const MIN_CONFIRM_S = 5
export const MAX_CONFIRM_S = 600
/** Log records in one response, and their size in bytes. */
export const MAX_LOG_LINES = 2_000
export const MAX_LOG_BYTES = 1024 * 1024
/** Requests for the log in progress or waiting: each takes a process and up to a MiB. */
export const MAX_WAITING_LOGS = 4
/** Bytes of responses that clients have not read, beyond which the log is not read for more clients. */
export const MAX_UNREAD_BYTES = 4 * MAX_LOG_BYTES
/** Operations in progress or waiting: each may take a process. */
export const MAX_WAITING_OPERATIONS = 4
/** Certificate changes and requests in progress or waiting: each makes or verifies a signature. */
export const MAX_WAITING_CERTIFICATES = 4
/** Milliseconds for which a device identifies itself: long enough to look up. */
export const IDENTIFY_MS = 10_000
/** Milliseconds to wait for the network interface whose address is on the card. */
export const CARD_LINK_MS = 20_000
/** Milliseconds for systemd to stop this program once it has agreed to restart the device. logind(8) waits up to 5 s. */
export const REBOOT_MS = 30_000
/** Milliseconds for which the choices are cached: finding them takes 20 ms on a fast machine. */
export const CHOICES_MS = 1_000
/** Milliseconds for which a Wi-Fi scan is shared by all requests: each scan disturbs mirroring. */
export const SCAN_SHARED_MS = 15_000
/** Milliseconds for which the Wi-Fi signal is cached: each reading starts two processes. */
export const SIGNAL_SHARED_MS = 2_000
/** Milliseconds for which the status waits for the signal: a daemon that hangs must not delay clients that wait for a trial. */
export const SIGNAL_WAIT_MS = 1_000
/** Milliseconds for requests and streams to end after SIGTERM. */
export const SHUTDOWN_MS = 4_000
/** Milliseconds of them for clients to read the answers that are being sent. */
export const LAST_ANSWERS_MS = 3_000
/** Milliseconds for which a stop waits for the first request on a connection. */
export const FIRST_REQUEST_MS = 1_000

/** A limit that an operator can change with an environment variable. */
interface Limit {
  readonly env: string
  readonly fallback: number
  readonly min: number
  readonly max: number
  /** The limit with its unit, as in `options.ts`. */
  readonly help: string
}

const TABLE = {
  events: {
    env: 'RECEIVERD_EVENTS',
    fallback: 1_024,
    min: 1,
    max: 65_536,
    help: 'events kept for clients that reconnect, never more than 1 MiB of them',
  },
  streams: {
    env: 'RECEIVERD_STREAMS',
    fallback: 512,
    min: 1,
    max: 65_536,
    help: 'event streams and held polls together; one more gets 503',
  },
  streamsPerAddress: {
    env: 'RECEIVERD_STREAMS_PER_ADDRESS',
    fallback: 64,
    min: 1,
    max: 65_536,
    help: 'the same, per client address or IPv6 /64; one more gets 429',
  },
  connections: {
    env: 'RECEIVERD_CONNECTIONS',
    fallback: 1_024,
    min: 1,
    max: 131_072,
    help: 'connections; if unset, at least twice the number of streams',
  },
  heartbeatS: {
    env: 'RECEIVERD_HEARTBEAT_S',
    fallback: 15,
    min: 1,
    max: 3_600,
    help: 'seconds between the heartbeats of a stream',
  },
  holdS: {
    env: 'RECEIVERD_HOLD_S',
    fallback: 30,
    min: 0,
    max: MAX_HOLD_S,
    help: 'seconds for which a poll is held, unless it says `Prefer: wait=N`',
  },
  stallS: {
    env: 'RECEIVERD_STALL_S',
    fallback: 60,
    min: 1,
    max: 3_600,
    help: 'seconds until a client that does not read is cut off',
  },
  leewayS: {
    env: 'RECEIVERD_LEEWAY_S',
    fallback: 0,
    min: 0,
    max: 3_600,
    help: 'seconds of tolerance for `exp` and `nbf` of a token',
  },
  bundleBytes: {
    env: 'RECEIVERD_BUNDLE_BYTES',
    fallback: 1024 * 1024 * 1024,
    min: 1,
    max: 4 * 1024 * 1024 * 1024,
    help: 'bytes of a firmware bundle; a larger one gets 413',
  },
} as const satisfies Record<string, Limit>

export type Limits = { readonly [name in keyof typeof TABLE]: number }

/** The limits that the environment can set, in the order of the help text. */
export const LIMITS = Object.entries(TABLE) as readonly [keyof Limits, Limit][]
