/**
 * In the schema of what tells one device from another, such as its name. A file of saved settings leaves it out unless it is
 * asked for. An extension of the OpenAPI document (OpenAPI 3.1 §4.9).
 */
export const IDENTITY = { 'x-identity': true }
