import { connect } from 'node:net'
import { errorCode } from '../errors.ts'
import { KERNEL } from '../files/kernel.ts'

/**
 * Removes a Unix socket that nobody listens on. A killed process leaves its socket behind, which keeps the next one from
 * listening (EADDRINUSE, unix(7)). Anything else at the path is left alone.
 */
export async function removeStaleSocket(path: string, fs = KERNEL): Promise<void> {
  const code = await new Promise<string | undefined>(resolve => {
    const socket = connect(path, () => {
      socket.destroy()
      resolve(undefined)
    })
    socket.on('error', error => resolve(errorCode(error)))
  })
  if (code === 'ECONNREFUSED' && fs.lstat(path)?.isSocket()) fs.unlink(path)
}
