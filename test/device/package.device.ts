/** The Debian packages, as Debian's own tools see them, and on a machine where they are updated and removed. */
import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { NO_RIG } from '../rig/available.ts'
import { follow } from '../rig/clients.ts'
import { type Rig, startRig } from '../rig/rig.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/folder.ts'
import { TestIssuer } from '../support/issuer.ts'

t.setTimeout(30 * 60_000)

const OUT = join(REPOSITORY, 'build/out')
/** The same programs as packages of the next version. */
const NEXT = ['receiverd', 'receiverd-tls'].map(name => join(OUT, `next/${name}.deb`))
const run = (program: string, ...args: string[]) => execFileSync(program, args, { encoding: 'utf8' })

const OPTIONS = '/etc/default/receiverd'
const NGINX = '/etc/receiverd/nginx.conf'
const UPDATE = 'dpkg --force-depends --install /root/latest/*.deb </dev/null'
const SECURED = "curl -sk -o /dev/null -w '%{http_code}' https://127.0.0.1/api/v1/health || true"
const EARLIER_OPTIONS = '# All options, as of an earlier version.\n'

const packages = readdirSync(OUT).filter(name => name.endsWith('.deb'))
const fileOf = (name: string) => join(OUT, packages.find(file => file.startsWith(`${name}_`)) ?? '')

t.test('lintian finds nothing', async t => {
  const parts = ['', '-fleet', '-mirroring', '-node', '-tls', '-update']
  t.same(
    packages.map(file => file.split('_')[0]).sort(),
    parts.map(part => `receiverd${part}`),
  )
  t.equal(run('lintian', '--allow-root', '--fail-on', 'none', ...packages.map(name => join(OUT, name))), '')
})

t.test('the packages contain what make install lays out', async t => {
  const contents = (name: string) => run('dpkg-deb', '--contents', fileOf(name)).split('\n')
  const lines = ['receiverd', 'receiverd-mirroring', 'receiverd-tls', 'receiverd-update'].flatMap(contents)
  for (const path of [
    '/etc/dbus-1/system.d/receiverd-rauc.conf',
    '/lib/systemd/system/nginx.service.d/50-receiverd.conf',
    '/lib/systemd/system/receiverd-download@.service',
    '/lib/systemd/system/receiverd-judge.service',
    '/lib/systemd/system/receiverd.service',
    '/lib/systemd/system/receiverd.socket',
    '/lib/systemd/system/screen@.service',
    '/lib/systemd/system/uxplay.service',
    '/lib/systemd/system/weston.service',
    '/usr/bin/receiverd',
    '/usr/lib/receiverd/default',
    '/usr/lib/receiverd/nginx.conf',
    '/usr/lib/receiverd/receiverd.cjs',
    '/usr/lib/systemd/system-preset/50-receiverd.preset',
    '/usr/lib/tmpfiles.d/receiverd.conf',
    '/usr/lib/receiverd/uxplay',
    '/usr/lib/udev/rules.d/70-weston.rules',
    '/usr/share/doc/receiverd/THIRD-PARTY',
    '/usr/share/doc/receiverd/examples/receiverd.options',
    '/usr/share/man/man8/receiverd.8.gz',
  ])
    t.ok(
      lines.some(line => line.endsWith(` .${path}`)),
      path,
    )
})

t.test('their licenses are named', async t => {
  const folder = t.testdir()
  run('dpkg-deb', '--extract', fileOf('receiverd'), folder)
  const copyright = readFileSync(join(folder, 'usr/share/doc/receiverd/copyright'), 'utf8')
  for (const author of ['receiverd maintainers', 'Paul Miller', 'Haydn Paterson']) t.match(copyright, author)
  const node = run('dpkg-deb', '--contents', fileOf('receiverd-node'))
  const names = Array.from(copyright.matchAll(/^Comment: (\S+), next to/gm), ([, name = '']) => name)
  t.ok(names.length > 0)
  for (const name of names)
    t.ok(existsSync(join(folder, 'usr/share/doc/receiverd', name)) || node.includes(`/receiverd-node/${name}\n`), name)
})

t.test('on a machine', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, {
    isTls: true,
    // Without receiverd-tls, Debian's nginx logs there. The rig starts without logs.
    files: { '/var/log/nginx/error.log': '' },
    packages: ['receiverd', 'receiverd-mirroring', 'receiverd-tls'].map(fileOf),
  })
  const outside = `http://${rig.address}:8080/api/v1/health`
  const isUp = (url: string) =>
    fetch(url).then(
      ({ ok }) => ok,
      () => false,
    )

  await t.test('an update while clients stream: nobody is refused, and the key stays', async t => {
    const followers = await Promise.all(Array.from({ length: 4 }, () => follow(rig)))
    const before = await rig.receiverd('--version')
    for (const [number, file] of NEXT.entries())
      await rig.run(['sh', '-c', `base64 -d >/root/next-${number}.deb`], readFileSync(file, 'base64'))
    await rig.shell('dpkg --install /root/next-*.deb')
    t.not(await rig.receiverd('--version'), before)
    t.equal((await rig.patch({ deviceName: 'Updated' })).status, 200, 'with the same key')
    const { value } = await rig.system()
    await eventually(() => followers.every(({ copy }) => JSON.stringify(copy()) === JSON.stringify(value)), 60_000)
    for (const { close } of followers) close()
    t.pass('every stream came back, and has all of it')
  })

  await t.test('receiverd-tls removed and installed again, nobody reaches the API without TLS', async t => {
    t.notOk(await isUp(outside))
    await rig.shell('dpkg --remove receiverd-tls')
    await eventually(() => isUp(outside))
    await rig.shell('dpkg --install /root/next-1.deb')
    await eventually(() => rig.isListening(443))
    t.notOk(await isUp(outside))
  })

  await t.test('removed, it is not announced or shown any more, and the key stays; purged, all goes', async t => {
    const names = 'receiverd-mirroring receiverd-tls receiverd'
    const found = (...paths: string[]) => rig.shell(`find ${paths.join(' ')} -type f 2>/dev/null || true`)
    const SHOWN = ['/etc/avahi/services/receiverd.service', '/run/receiverd/screen']
    const issuer = { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: new TestIssuer('a').file() }
    t.equal((await rig.fetch('/issuers/office', issuer)).status, 201)
    t.equal((await rig.patch({ groups: ['floor-4'] })).status, 200)
    await rig.shell('cd /etc/receiverd && touch notes update.conf moderation.conf .update.conf.receiverd-interrupted')
    await eventually(async () => (await found(...SHOWN)).split('\n').length > SHOWN.length)

    await rig.shell(`dpkg --remove ${names}`)
    t.notOk(rig.isListening(8080))
    t.equal(await found(...SHOWN), '')
    t.equal(await rig.readFile('/var/lib/receiverd/api-key'), `${rig.key}\n`)

    await rig.shell(`dpkg --purge ${names}`)
    const folders = ['/etc', '/var/lib', '/var/cache'].map(folder => `${folder}/receiverd`)
    t.equal(await found(...folders), '/etc/receiverd/notes\n', "the owner's own file")
    const others = '/var/lib/receiverd /var/cache/receiverd /var/lib/uxplay /var/cache/uxplay /var/cache/weston'
    t.equal(await rig.shell(`ls -d ${others} 2>/dev/null || true`), '')
    t.equal(await rig.shell('systemctl list-units --failed --no-legend'), '')
  })
})

t.test('an update of earlier packages on a machine with options and a port of its own', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, { isTls: true, packages: ['receiverd', 'receiverd-tls'].map(name => earlier(t, name)) })
  const latest = ['receiverd', 'receiverd-tls'].map(fileOf)
  for (const file of latest) await send(rig, file)
  const health = () => fetch(`http://${rig.address}:18081/api/v1/health`).then(({ status }) => status)
  await rig.shell(`echo RECEIVERD_LEEWAY_S=30 >>${OPTIONS}`)
  await rig.replaceFile('/etc/systemd/system/test-port.conf', '[Socket]\nListenStream=\nListenStream=18081\n')
  await rig.shell(`cd /etc/systemd/system && install -D -m 644 test-port.conf receiverd.socket.d/override.conf`)
  await rig.shell('systemctl daemon-reload && systemctl restart receiverd.socket')
  await eventually(() => health().catch(() => undefined))
  await rig.shell(`echo '# Edited.' >>${NGINX}`)
  const edited = await rig.readFile(NGINX)

  await rig.shell(UPDATE)
  t.equal(await rig.readFile(NGINX), edited)
  t.equal(await rig.readFile(OPTIONS), `${EARLIER_OPTIONS}RECEIVERD_LEEWAY_S=30\n`, 'options that were set stay')
  await t.rejects(health(), 'nobody reaches the API without TLS')
  await eventually(async () => (await rig.shell(SECURED)) === '200')
  t.equal(await rig.shell('dpkg --audit receiverd receiverd-tls'), '')

  const purge = 'dpkg --purge receiverd-tls receiverd'
  await rig.shell(`${purge} && dpkg --force-depends --install /root/receiverd_*.deb && ${UPDATE}`)
  t.equal(await rig.readFile(OPTIONS), readFileSync(join(REPOSITORY, 'build/package/receiverd.default'), 'utf8'))
  await rig.shell(`echo RECEIVERD_LEEWAY_S=30 >${OPTIONS} && ${UPDATE}`)
  t.equal(await rig.readFile(OPTIONS), 'RECEIVERD_LEEWAY_S=30\n')
  await rig.shell(`rm ${OPTIONS} && ${UPDATE}`)
  t.equal(await rig.shell(`ls ${OPTIONS} 2>/dev/null || true`), '', 'a file that was removed stays away')
  await rig.shell(`touch ${OPTIONS} && ${purge}`)
  t.equal(await rig.shell(`ls -d ${OPTIONS} /etc/receiverd /var/lib/receiverd-tls 2>/dev/null || true`), '')
})

t.test('an update of earlier packages where nginx reaches the service at another port', { skip: NO_RIG }, async t => {
  const names = ['receiverd', 'receiverd-tls']
  const rig = await startRig(t, { isTls: true, packages: names.map(name => earlier(t, name)) })
  for (const file of names.map(fileOf)) await send(rig, file)
  const socket = async () => rig.run(['systemctl', 'show', '--property=Listen,InvocationID', 'receiverd.socket'])
  await rig.replaceFile('/etc/systemd/system/test-port.conf', '[Socket]\nListenStream=\nListenStream=127.0.0.1:9090\n')
  await rig.shell(`cd /etc/systemd/system && install -D -m 644 test-port.conf receiverd.socket.d/override.conf`)
  await rig.shell(`sed -i s/127.0.0.1:8080/127.0.0.1:9090/ ${NGINX}`)
  await rig.shell('systemctl daemon-reload && systemctl restart receiverd.socket && systemctl restart nginx')
  const before = await socket()
  t.match(before, '127.0.0.1:9090')

  for (const time of ['first', 'second']) {
    await rig.shell(UPDATE)
    t.equal(await socket(), before, `the socket stays at the ${time} update`)
    await eventually(async () => (await rig.shell(SECURED)) === '200')
  }
  await rig.shell('dpkg --purge receiverd-tls && rm /etc/systemd/system/receiverd.socket.d/override.conf')
  t.equal(await rig.shell('ls /etc/systemd/system/receiverd.socket.d'), '', 'purged, it leaves no port behind')
  await rig.shell(UPDATE)
  t.match(await socket(), '127.0.0.1:8080')

  // Another server in front has reached the service where this one does.
  await rig.shell('dpkg --purge receiverd-tls && rm -rf /etc/receiverd/tls')
  await rig.replaceFile('/etc/systemd/system/test-port.conf', '[Socket]\nListenStream=\nListenStream=127.0.0.1:8080\n')
  await rig.shell(`cd /etc/systemd/system && install -D -m 644 test-port.conf receiverd.socket.d/override.conf`)
  await rig.shell('systemctl daemon-reload && systemctl restart receiverd.socket')
  await rig.shell(UPDATE.replace('*', 'receiverd-tls*'))
  await eventually(async () => (await rig.shell(SECURED)) === '200')
})

t.test('a configuration of nginx that nobody has edited is updated', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, { isTls: true, packages: ['receiverd', 'receiverd-tls'].map(name => earlier(t, name)) })
  await send(rig, fileOf('receiverd'))
  await send(rig, fileOf('receiverd-tls'))
  await send(rig, otherNginx(t), '/root/other')
  const shipped = readFileSync(join(REPOSITORY, 'build/package/nginx.conf'), 'utf8')
  const other = UPDATE.replace('latest', 'other')
  t.equal(await rig.readFile(NGINX), `${shipped}# Earlier.\n`)
  await rig.shell(UPDATE)
  t.equal(await rig.readFile(NGINX), shipped, 'an earlier one')
  await rig.shell(other)
  t.equal(await rig.readFile(NGINX), `${shipped}# Other.\n`, 'one of a version that has no conffile')
  await rig.shell(`dpkg --remove receiverd-tls && ${UPDATE}`)
  t.equal(await rig.readFile(NGINX), shipped, 'also after the package was removed')
  await rig.shell(`echo '# Edited.' >>${NGINX} && ${other}`)
  t.equal(await rig.readFile(NGINX), `${shipped}# Edited.\n`)
  await rig.shell(`rm ${NGINX} && ${UPDATE}`)
  t.equal(await rig.shell(`ls ${NGINX} 2>/dev/null || true`), '', 'a file that was removed stays away')
})

t.test('another Node is taken into use at once, and only once', { skip: NO_RIG }, async t => {
  const rig = await startRig(t, { packages: [fileOf('receiverd')] })
  const starts = async () => (await rig.journal('--unit=receiverd', '--identifier=systemd', '--grep=^Started')).length
  await send(rig, fileOf('receiverd'))
  await send(rig, nodePackage(t))
  for (const [number, command] of [
    'dpkg --install /root/latest/receiverd-node*.deb',
    'dpkg --install /root/latest/*.deb',
    'dpkg --purge receiverd-node',
  ].entries()) {
    await rig.shell(command)
    t.equal(await starts(), number + 2, command)
  }
})

t.test('the timer of receiverd-fleet waits to be enabled, and goes with the package', { skip: NO_RIG }, async t => {
  const timer = 'receiverd-fleet-token.timer'
  const rig = await startRig(t, { packages: ['receiverd', 'receiverd-fleet'].map(fileOf) })
  const state = (property: string) => rig.run(['systemctl', 'show', `--property=${property}`, '--value', timer])
  t.equal(await state('UnitFileState'), 'disabled\n')
  t.equal(await state('ActiveState'), 'inactive\n')
  await rig.run(['systemctl', 'enable', '--now', timer])
  t.equal(await state('ActiveState'), 'active\n')
  await rig.shell('dpkg --install --force-depends /root/receiverd-fleet_*.deb')
  t.equal(await state('ActiveState'), 'active\n', 'installed anew, it goes on')
  await rig.shell('dpkg --remove receiverd-fleet')
  t.equal(await state('ActiveState'), 'inactive\n')
  await rig.shell('dpkg --purge receiverd-fleet')
  t.equal(await rig.shell(`find /etc/systemd -name '${timer}'`), '')
})

/** The package as it was when its configuration was a conffile, and its drop-in was read before the administrator's. */
function earlier(t: Test, name: string): string {
  const folder = temporaryFolder(t)
  const tree = join(folder, 'tree')
  run('dpkg-deb', '--raw-extract', fileOf(name), tree)
  const control = join(tree, 'DEBIAN/control')
  writeFileSync(control, readFileSync(control, 'utf8').replaceAll(/^(Version: |.*receiverd \(= )[^)\n]+/gm, '$10.0.1'))
  const file = name === 'receiverd' ? OPTIONS : NGINX
  mkdirSync(dirname(join(tree, file)), { recursive: true })
  writeFileSync(join(tree, 'DEBIAN/conffiles'), `${file}\n`)
  const script = join(tree, 'DEBIAN/postinst')
  writeFileSync(script, readFileSync(script, 'utf8').replace(/^(options|configuration)=.*?^fi$/ms, ''))
  if (name === 'receiverd') writeFileSync(join(tree, OPTIONS), EARLIER_OPTIONS)
  else {
    renameSync(join(tree, 'usr/lib/receiverd/nginx.conf'), join(tree, NGINX))
    appendFileSync(join(tree, NGINX), '# Earlier.\n')
    const dropIns = join(tree, 'lib/systemd/system/receiverd.socket.d')
    for (const file of readdirSync(dropIns)) renameSync(join(dropIns, file), join(dropIns, '50-tls.conf'))
  }
  return built(folder, tree, name)
}

/** receiverd-tls with another configuration of nginx. */
function otherNginx(t: Test): string {
  const folder = temporaryFolder(t)
  const tree = join(folder, 'tree')
  run('dpkg-deb', '--raw-extract', fileOf('receiverd-tls'), tree)
  appendFileSync(join(tree, 'usr/lib/receiverd/nginx.conf'), '# Other.\n')
  return built(folder, tree, 'receiverd-tls')
}

/** A package with a Node that this machine's processor can run, where receiverd-node has its own. */
function nodePackage(t: Test): string {
  const name = 'receiverd-node'
  const folder = temporaryFolder(t)
  const tree = join(folder, 'tree')
  for (const path of ['DEBIAN', 'usr/lib/receiverd']) mkdirSync(join(tree, path), { recursive: true })
  const control = ['Version: 24.0.0', 'Architecture: all', 'Maintainer: a <a@example.com>', 'Description: Node']
  writeFileSync(join(tree, 'DEBIAN/control'), [`Package: ${name}`, ...control, ''].join('\n'))
  writeFileSync(join(tree, 'usr/lib/receiverd/node'), '#!/bin/sh\nexec /usr/bin/node "$@"\n', { mode: 0o755 })
  return built(folder, tree, name)
}

function built(folder: string, tree: string, name: string): string {
  const file = join(folder, `${name}_0_all.deb`)
  run('dpkg-deb', '--root-owner-group', '--build', tree, file)
  return file
}

/** Copies a package to a folder of the machine. */
async function send(rig: Rig, file: string, folder = '/root/latest'): Promise<void> {
  const command = 'mkdir -p "$0" && base64 -d >"$0/$1"'
  await rig.run(['sh', '-c', command, folder, basename(file)], readFileSync(file, 'base64'))
}
