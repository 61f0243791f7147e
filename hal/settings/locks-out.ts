/**
 * In the schema of a setting that can cut off who changes it: a client should send it with `confirmWithin`, and confirm it
 * once it has reached the device again within so many seconds. An extension of the OpenAPI document (OpenAPI 3.1 §4.9).
 */
export const LOCKS_OUT = { 'x-confirm-within': 60 }
