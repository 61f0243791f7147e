/** Server-Sent Events over fetch: an EventSource cannot send the credential in a header. */

export interface ServerEvent {
  /** Empty if the stream cannot resume from this event. */
  readonly id: string
  readonly event: string
  readonly data: string
}

/**
 * Parses a stream (HTML standard, §9.2.6).
 * @param heard Called whenever anything arrives, even a comment.
 */
export async function* parseEvents(
  body: ReadableStream<Uint8Array>,
  heard: () => void,
): AsyncGenerator<ServerEvent | { readonly retryMs: number }> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let fields = { id: '', event: '', data: '' }
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    heard()
    text += decoder.decode(value, { stream: true })
    const lines = text.split(/\r\n|\n|\r(?!$)/)
    text = lines.pop() ?? ''
    for (const line of lines) {
      if (line === '') {
        if (fields.event !== '') yield fields
        fields = { id: '', event: '', data: '' }
        continue
      }
      const [, name = '', content = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? []
      if (name === 'retry' && /^\d+$/.test(content)) yield { retryMs: Number(content) }
      else if (name === 'id' || name === 'event' || name === 'data') fields[name] = content
    }
  }
}
