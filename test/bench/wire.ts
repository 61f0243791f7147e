// Requests as they go over the wire, made before anything is measured.

export interface RequestText {
  readonly method?: string
  readonly path: string
  readonly token?: string
  /** Each as `Name: value`. */
  readonly headers?: readonly string[]
  /** JSON. */
  readonly body?: string
}

export function requestText({ method = 'GET', path, token, headers = [], body }: RequestText): string {
  const credential = token === undefined ? [] : [`Authorization: Bearer ${token}`]
  const entity =
    body === undefined ? [] : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`]
  const head = [`${method} ${path} HTTP/1.1`, 'Host: bench', ...credential, ...headers, ...entity]
  return `${head.join('\r\n')}\r\n\r\n${body ?? ''}`
}
