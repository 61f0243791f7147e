import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import t from 'tap'
import { HalError } from '../../hal/errors.ts'
import { CommandError, describeFailure } from '../../src/cli/failure.ts'

const errno = { EACCES: -13, EADDRINUSE: -98, EADDRNOTAVAIL: -99, EPERM: -1, EROFS: -30 }

/** An error as Node makes it for a failed system call. */
function failed(code: keyof typeof errno, properties: object): Error {
  return Object.assign(new Error(`${code}: whatever`), { code, errno: errno[code], ...properties })
}

t.test('what failed, why, and what to do', async t => {
  const file = { syscall: 'open', path: '/var/lib/receiverd/api-key' }
  const port = { syscall: 'listen', address: '0.0.0.0', port: 80 }
  const cases: [error: unknown, isRoot: boolean, text: string][] = [
    [
      failed('EACCES', file),
      false,
      'cannot access /var/lib/receiverd/api-key: permission denied (EACCES); run it as root',
    ],
    [failed('EACCES', file), true, 'cannot access /var/lib/receiverd/api-key: permission denied (EACCES)'],
    [failed('EROFS', file), false, 'cannot access /var/lib/receiverd/api-key: read-only file system (EROFS)'],
    [failed('EACCES', port), false, 'cannot listen on 0.0.0.0:80: permission denied (EACCES); run it as root'],
    [
      failed('EADDRINUSE', { ...port, address: '::1' }),
      true,
      'cannot listen on [::1]:80: address already in use (EADDRINUSE); stop the program that uses it, or choose another address with --listen',
    ],
    [
      failed('EADDRNOTAVAIL', port),
      true,
      'cannot listen on 0.0.0.0:80: address not available (EADDRNOTAVAIL); choose an address of this device with --listen',
    ],
    [new CommandError('there is no API key yet'), false, 'there is no API key yet'],
    [new HalError('UNREADABLE', 'the file is not valid UTF-8'), true, 'the file is not valid UTF-8'],
    ['a string', true, 'a string'],
  ]
  for (const [error, isRoot, text] of cases) t.equal(describeFailure(error, isRoot), text)
})

t.test('reads the errors of Node itself', async t => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  const inUse = await new Promise(resolve => createServer().once('error', resolve).listen(port, '127.0.0.1'))
  t.match(describeFailure(inUse, true), `cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE); `)
  const noFile = await readFile('/nonexistent').catch((error: unknown) => error)
  t.equal(describeFailure(noFile, true), 'cannot access /nonexistent: no such file or directory (ENOENT)')
})
