/**
 * Schema member of a setting that identifies a device, such as its name. A file of saved settings leaves it out unless asked
 * otherwise. An extension of the OpenAPI document (OpenAPI 3.1 §4.9).
 */
export const IDENTITY = { 'x-identity': true }
