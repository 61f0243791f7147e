import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that Linux gives to whoever asks for any (net.ipv4.ip_local_port_range): no other test gets one of them. */
const FIRST = 20_000
const LAST = 32_767

/** A free port of the loopback, for a program that cannot choose one by itself. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, LAST + 1)
    const server = createServer()
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') continue
      throw error
    }
    server.close()
    await once(server, 'close')
    return port
  }
}
