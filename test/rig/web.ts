/** A web server on the other end of a machine's cable. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export type Handler = (request: IncomingMessage, response: ServerResponse) => void

/**
 * @param handlers By path, without its slash; others may be added later. Any other path is 404, with a text that nobody may see.
 * @param asked Gets each request.
 * @returns its port.
 */
export async function serve(
  t: Test,
  handlers: Readonly<Record<string, Handler>>,
  asked: (request: IncomingMessage) => void,
): Promise<number> {
  const server = createServer((request, response) => {
    asked(request)
    const handler = handlers[(request.url ?? '').replace(/\?.*/, '').slice(1)]
    if (handler) handler(request, response)
    else response.writeHead(404).end('<secret of the server>')
  })
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  server.listen(0, '0.0.0.0')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

export const redirect =
  (location: string): Handler =>
  (_, response) =>
    response.writeHead(302, { Location: location }).end()
