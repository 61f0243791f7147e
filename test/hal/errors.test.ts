import { test } from 'tap'
import { reasonOf } from '../../hal/errors.ts'
import { systemError } from './support/file-system.ts'

test('a reason names the error, and no path', t => {
  t.equal(reasonOf(systemError('EROFS')), 'read-only file system (EROFS)')
  t.equal(reasonOf(new Error('/etc/secret')), 'unexpected error')
  t.equal(reasonOf('/etc/secret'), 'unexpected error')
  t.end()
})
