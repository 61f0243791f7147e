/** A file that cannot be opened for a moment, as where too many are open, is not taken for a change. */
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type FileSystem, KERNEL } from '../../hal/files/kernel.ts'
import { systemError } from '../hal/support/file-system.ts'
import { deviceRoot } from '../support/device.ts'
import { eventually } from '../support/eventually.ts'
import { TestIssuer } from '../support/issuer.ts'
import { startTestService } from '../support/service.ts'

/** A file system where files whose paths match cannot be opened to be read. */
function refusing() {
  const refused: { paths: RegExp | undefined } = { paths: undefined }
  const open: FileSystem['open'] = (path, flags, mode) => {
    if ((flags & 3) === 0 && refused.paths?.test(path)) throw systemError('EMFILE')
    return KERNEL.open(path, flags, mode)
  }
  return { refused, fs: { ...KERNEL, open } }
}

t.test('a value stays, and what follows it is not written; it is looked at again by itself', async t => {
  const { refused, fs } = refusing()
  const service = await startTestService(t, { fs })
  await service.patch({ deviceName: 'Lobby', airplay: { name: '' } })
  const before = await service.system()
  const uxplayrc = readFileSync(service.path('etc/uxplayrc'), 'utf8')
  refused.paths = /machine-info|\.network$/
  await service.patch({ groups: ['a'] })
  for (const name of ['etc/machine-info', 'etc/systemd/network/20-wired.network'])
    utimesSync(service.path(name), new Date(), new Date())
  for (const name of ['deviceName', 'network'])
    await eventually(() => service.log.some(line => line.startsWith(`warning: ${name}: showing its last value`)))
  const { value } = await service.system()
  t.strictSame([value.deviceName, value.network], [before.value.deviceName, before.value.network])
  t.equal(readFileSync(service.path('etc/uxplayrc'), 'utf8'), uxplayrc)
  refused.paths = undefined
  await eventually(() => service.log.includes('info: deviceName: the stored value is usable again'))
})

t.test('a setting that could not be read at the start is not replaced by a change', async t => {
  const address = '[Match]\nName=eth0\n\n[Network]\nAddress=192.0.2.10/24\nGateway=192.0.2.1\n'
  const change = { network: { eth0: { dns: ['192.0.2.9'] } } }
  for (const isBack of [true, false]) {
    const { refused, fs } = refusing()
    const root = deviceRoot(t)
    const file = join(root, 'etc/systemd/network/10-receiverd-eth0.network')
    writeFileSync(file, address)
    refused.paths = /-eth0\.network$/
    const service = await startTestService(t, { root, fs })
    if (isBack) refused.paths = undefined
    const answer = await service.patch(change)
    if (isBack) {
      t.equal(answer.status, 200)
      t.equal(readFileSync(file, 'utf8'), address.replace('[Network]\n', '[Network]\nDNS=192.0.2.9\n'))
    } else {
      t.equal(answer.status, 500)
      t.match(await answer.json(), {
        type: 'urn:receiverd:problem:system-refused',
        detail:
          'network cannot be changed while it cannot be read: too many open files (EMFILE). Nothing has changed; try again later.',
      })
    }
  }
})

t.test('a setting that can never be read is changed whole, but not in part', async t => {
  const { refused, fs } = refusing()
  const root = deviceRoot(t)
  mkdirSync(join(root, 'etc/systemd/timesyncd.conf.d'), { recursive: true })
  writeFileSync(join(root, 'etc/systemd/timesyncd.conf.d/10-site.conf'), '[Time]\nNTP=ntp.example\n')
  refused.paths = /10-site\.conf$/
  const service = await startTestService(t, { root, fs })
  t.equal((await service.patch({ ntp: { enabled: false } })).status, 500)
  t.equal((await service.patch({ ntp: { enabled: true, servers: ['192.0.2.1'] } })).status, 200)
  t.match(readFileSync(join(root, 'etc/systemd/timesyncd.conf.d/50-receiverd.conf'), 'utf8'), 'NTP=192.0.2.1\n')
})

t.test(
  'an issuer that is removed is out, and one that is replaced is replaced, where that cannot be read back',
  async t => {
    const { refused, fs } = refusing()
    // From the moment it is stored or gone, so that it can be captured before.
    const rename: FileSystem['rename'] = (from, to) => {
      KERNEL.rename(from, to)
      if (to.endsWith('/fleet.json')) refused.paths = /fleet\.json$/
    }
    let isGone = false
    const unlink: FileSystem['unlink'] = path => {
      KERNEL.unlink(path)
      isGone ||= path.endsWith('/fleet.json')
    }
    const readdir: FileSystem['readdir'] = path => {
      if (isGone && path.endsWith('/issuers')) throw systemError('EMFILE')
      return KERNEL.readdir(path)
    }
    const service = await startTestService(t, { fs: { ...fs, rename, unlink, readdir } })
    const issuers = [new TestIssuer('fleet'), new TestIssuer('fleet')] as const
    const headers = { 'Content-Type': 'application/json' }
    const put = (issuer: TestIssuer) => service.fetch('/issuers/fleet', { method: 'PUT', body: issuer.file(), headers })
    const statuses = () => Promise.all(issuers.map(async issuer => (await service.fetchAs(issuer.token())).status))
    t.equal((await put(issuers[0])).status, 201)
    t.strictSame(await statuses(), [200, 401])
    refused.paths = undefined
    t.equal((await put(issuers[1])).status, 200)
    t.strictSame(await statuses(), [401, 200])
    refused.paths = undefined
    t.equal((await service.fetch('/issuers/fleet', { method: 'DELETE' })).status, 204)
    t.strictSame(await statuses(), [401, 401])
  },
)

t.test('a change that cannot be checked says so', async t => {
  const { refused, fs } = refusing()
  const service = await startTestService(t, { fs })
  refused.paths = /zoneinfo|\.network$|networkd/
  const answer = await service.patch({ network: { eth0: { dns: ['192.0.2.9'] } } })
  t.equal(answer.status, 500)
  t.match(await answer.json(), {
    type: 'urn:receiverd:problem:system-refused',
    detail: 'The system could not be read to check network: too many open files (EMFILE). Nothing has changed.',
  })
})

t.test('a start is not kept from serving by what it does beside', async t => {
  const root = deviceRoot(t)
  for (const path of [/receiver-without-data/, /weston\.service/, /\.receiverd-/]) {
    const lstat: FileSystem['lstat'] = at => {
      if (path.test(at)) throw systemError('EIO')
      return KERNEL.lstat(at)
    }
    const readdir: FileSystem['readdir'] = at => {
      if (path.test('.receiverd-') && at.endsWith('/etc')) throw systemError('EIO')
      return KERNEL.readdir(at)
    }
    const service = await startTestService(t, {
      root,
      fs: { ...KERNEL, lstat, readdir },
      running: true,
      run: async () => '',
    })
    t.equal((await service.fetch('/health')).status, 200, `${path}`)
    await service.close()
  }
})
