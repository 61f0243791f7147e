import type { ClientRequest, IncomingMessage } from 'node:http'

/**
 * Resolves with the response to a request. Rejects with the error of the request, or if it gets no response, such as after a
 * 101 that was not asked for (RFC 9110 section 15.2.2).
 */
export function responseTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request
      .on('error', reject)
      .on('response', resolve)
      .on('close', () => reject(new Error('no answer')))
  })
}
