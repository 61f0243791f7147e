/**
 * Schema member of an address whose query may be a secret: responses mask it. An extension of the OpenAPI document
 * (OpenAPI 3.1 §4.9).
 */
export const SECRET_QUERY = { 'x-secret-query': true }
