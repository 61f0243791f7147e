/**
 * Schema member of a setting that can cut off the client that changes it. The client should send the change with
 * `confirmWithin`, reach the device again, and confirm the change within this number of seconds. An extension of the OpenAPI
 * document (OpenAPI 3.1 §4.9).
 */
export const LOCKS_OUT = { 'x-confirm-within': 60 }
