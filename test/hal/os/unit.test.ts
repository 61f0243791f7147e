import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { HalError } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/os/command.ts'
import { System } from '../../../hal/os/system.ts'
import { Unit } from '../../../hal/os/unit.ts'
import { FakeSystemd } from '../../support/fakes/systemd.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { changedPaths, treeOf } from '../support/tree.ts'

const ETC = '/etc/systemd/system'
const VENDOR = '/usr/lib/systemd/system'
const SERVICE = '[Service]\nExecStart=/bin/true\n'
const INSTALL = `${SERVICE}[Install]\nWantedBy=multi-user.target\n`
const SOCKET = '[Socket]\nListenStream=1\n[Install]\nWantedBy=sockets.target\n'

/** A root with these units, and a unit of them. */
function rootWith(t: Test, units: Readonly<Record<string, string>>, ...services: string[]) {
  const root = t.testdir({ etc: { systemd: { system: {} } }, usr: { lib: { systemd: { system: {} } } } })
  const put = (path: string, text: string) => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  const link = (path: string, target: string) => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    symlinkSync(target, join(root, path))
  }
  for (const [name, text] of Object.entries(units)) put(`${VENDOR}/${name}`, text)
  const system = new System(root)
  const systemctl = (...argv: string[]) =>
    spawnSync('systemctl', [`--root=${root}`, ...argv], { encoding: 'utf8' }).stdout.trim()
  return { root, put, link, systemctl, unit: new Unit(system, ...services) }
}

/** The same with commands that a fake runs. */
function running(t: Test, units: Readonly<Record<string, string>>, ...services: string[]) {
  const rest = rootWith(t, units, ...services)
  const systemd = new FakeSystemd(rest.root)
  const ran: string[] = []
  const system = new System(rest.root, {
    running: true,
    run: argv => {
      ran.push(argv.slice(1).join(' '))
      return systemd.systemctl(argv)
    },
  })
  return { ...rest, systemd, ran, unit: new Unit(system, ...services) }
}

test('a unit is enabled by a link of any target, unless it is masked', async t => {
  const { root, put, link, unit } = rootWith(t, {}, 'a.service')
  t.notOk(await unit.isInstalled())
  t.notOk(await unit.isEnabled())
  put(`${VENDOR}/a.service`, '')
  t.ok(await unit.isInstalled())
  t.notOk(await unit.isEnabled())
  for (const target of ['multi-user.target.wants', 'kiosk.target.wants', 'graphical.target.requires']) {
    link(`${ETC}/${target}/a.service`, `${VENDOR}/a.service`)
    t.ok(await unit.isEnabled(), target)
    link(`${ETC}/a.service`, '/dev/null')
    t.notOk(await unit.isEnabled(), `${target}, masked`)
    t.ok(await unit.isInstalled())
    rmSync(join(root, ETC, 'a.service'))
    rmSync(join(root, ETC, target), { recursive: true })
  }
  put(`${ETC}/multi-user.target.wants/a.service`, '')
  t.notOk(await unit.isEnabled(), 'a file that is not a link')
})

test('units are found wherever systemd looks for them', async t => {
  for (const folder of [ETC, VENDOR, '/usr/local/lib/systemd/system', '/lib/systemd/system']) {
    const { put, unit } = rootWith(t, {}, 'a.service')
    put(`${folder}/a.service`, INSTALL)
    t.ok(await unit.isInstalled(), folder)
  }
  const { link, unit } = rootWith(t, {}, 'a.service')
  link(`${ETC}/a.service`, '/dev/null')
  t.notOk(await unit.isInstalled(), 'a mask without a unit')
})

test('its files are all that systemctl changes when it enables or disables it', async t => {
  const everything =
    `${SERVICE}[Install]\nWantedBy=a.target b.target\nRequiredBy=c.target\nAlias=other.service\nAlso=two.service\n` +
    '[X-Ours]\nWantedBy=no.target\n'
  const { root, put, link, unit } = rootWith(
    t,
    { 'one.service': everything, 'two.service': `${INSTALL}Also=one.service\n` },
    'one.service',
  )
  put(`${ETC}/one.service.d/more.conf`, '[Install]\nWantedBy=d.target\n')
  const check = async (enabled: boolean) => {
    t.equal(await unit.whyNot(enabled), undefined)
    const { files } = unit
    const before = treeOf(root)
    t.equal(await unit.setEnabled(enabled), true)
    t.equal(await unit.isEnabled(), enabled)
    const changed = changedPaths(before, treeOf(root))
    t.ok(changed.length > 0)
    t.strictSame(
      changed.filter(path => !files.includes(path)),
      [],
    )
    return changed
  }
  const links = ['a.target.wants/one', 'b.target.wants/one', 'c.target.requires/one', 'd.target.wants/one']
  const all = [...links, 'multi-user.target.wants/two', 'other'].map(name => `${ETC}/${name}.service`)
  t.strictSame(await check(true), all)
  link(`${ETC}/kiosk.target.wants/one.service`, `${VENDOR}/one.service`)
  t.strictSame(await check(false), [...all, `${ETC}/kiosk.target.wants/one.service`].sort(), 'and links made by hand')
})

test('a link made by hand may have been one of its files, even if it is gone', t => {
  const { unit } = rootWith(t, {}, 'a.service')
  for (const [path, may] of [
    [`${ETC}/kiosk.target.wants/a.service`, true],
    [`${ETC}/kiosk.target.requires/a.socket`, true],
    [`${ETC}/kiosk.target.wants/b.service`, false],
    [`${ETC}/a.service`, false],
    [`${ETC}/kiosk.target/a.service`, false],
    [`${ETC}/../x.wants/a.service`, false],
    [`${ETC}/x/y.wants/a.service`, false],
    [`${ETC}/x.wants/y/a.service`, false],
    ['/etc/x.wants/a.service', false],
  ] as const)
    t.equal(unit.mayHave(path), may, path)
  t.end()
})

test('an [Install] section names no files elsewhere', async t => {
  const { unit } = rootWith(
    t,
    {
      'a.service': `${SERVICE}[Install]\nWantedBy=../../x.target %i.target\nAlias=/etc/passwd ..\nAlso=../b.service\n`,
    },
    'a.service',
  )
  t.ok(await unit.isInstalled())
  t.strictSame(unit.files, [])
})

test('a change that systemctl would not make is refused with the reason', async t => {
  const { root, link, unit, systemctl } = rootWith(t, { 'a.service': INSTALL, 'b.service': SERVICE }, 'a.service')
  t.equal(await unit.whyNot(true), undefined)
  t.equal(await unit.whyNot(false), undefined, 'it is disabled already')
  systemctl('mask', 'a.service')
  t.equal(await unit.whyNot(true), 'a.service is masked')
  rmSync(join(root, ETC, 'a.service'))

  link(`${VENDOR}/multi-user.target.wants/a.service`, '../a.service')
  t.equal(await unit.isEnabled(), true, 'by the system image')
  t.equal(await unit.whyNot(false), 'a.service is enabled by the system image and can only be masked')
  t.equal(await unit.whyNot(true), undefined)

  const other = new Unit(new System(root), 'b.service')
  t.equal(await other.whyNot(true), 'b.service has no [Install] section')
})

test('of several names the one that is installed is meant, and an alias is not another unit', async t => {
  for (const name of ['ssh.service', 'sshd.service']) {
    const { unit, systemctl } = rootWith(t, { [name]: INSTALL }, 'ssh.service', 'sshd.service')
    t.ok(await unit.isInstalled())
    t.equal(await unit.setEnabled(true), true)
    t.equal(systemctl('is-enabled', name), 'enabled')
    t.equal(await unit.setEnabled(true), false, 'no change')
    t.equal(await unit.setEnabled(false), true)
    t.equal(systemctl('is-enabled', name), 'disabled')
  }
  const { ran, unit } = running(t, { 'ssh.service': `${INSTALL}Alias=sshd.service\n` }, 'ssh.service', 'sshd.service')
  await unit.setEnabled(true)
  await unit.activate(true, false, true)
  await unit.setEnabled(false)
  await unit.activate(false, true, true)
  t.strictSame(ran, ['enable ssh.service', 'restart ssh.service', 'disable ssh.service', 'stop ssh.service'])
})

test('with a socket, whichever was enabled is enabled again, also by another process', async t => {
  for (const [units, isSocket] of [
    [['a.service'], false],
    [['a.socket'], true],
  ] as const) {
    const files = { 'a.service': INSTALL, 'a.socket': SOCKET }
    const { root, unit, systemctl } = rootWith(t, files, 'a.service')
    systemctl('enable', ...units)
    const before = treeOf(root)
    t.ok(await unit.isEnabled())
    t.ok(await unit.setEnabled(false))
    t.strictSame([systemctl('is-enabled', 'a.service'), systemctl('is-enabled', 'a.socket')], ['disabled', 'disabled'])
    t.ok(await new Unit(new System(root), 'a.service').setEnabled(true))
    t.strictSame(
      changedPaths(before, treeOf(root)).filter(path => !path.endsWith('50-receiverd.conf')),
      [],
    )
    t.equal(existsSync(join(root, ETC, 'a.socket.d/50-receiverd.conf')), isSocket)
  }
})

test('a unit that was switched to its service by hand forgets the socket', async t => {
  const { root, unit, systemctl } = rootWith(t, { 'a.service': INSTALL, 'a.socket': SOCKET }, 'a.service')
  systemctl('enable', 'a.socket')
  await unit.setEnabled(false)
  systemctl('enable', 'a.service')
  await unit.setEnabled(false)
  await unit.setEnabled(true)
  t.strictSame([systemctl('is-enabled', 'a.service'), systemctl('is-enabled', 'a.socket')], ['enabled', 'disabled'])
  t.notOk(existsSync(join(root, ETC, 'a.socket.d/50-receiverd.conf')))
})

test('disabling it disables all of it, and stops the socket before the service', async t => {
  const { root, ran, unit, systemd } = running(t, { 'a.service': INSTALL, 'a.socket': SOCKET }, 'a.service')
  for (const name of ['a.service', 'a.socket']) await systemd.systemctl(['systemctl', 'enable', name])
  systemd.boot()
  await unit.setEnabled(false)
  await unit.activate(false, true, true)
  t.strictSame(ran, ['disable a.service a.socket', 'stop a.socket a.service'])
  t.equal(systemd.text, '')
  t.throws(() => lstatSync(join(root, ETC, 'sockets.target.wants/a.socket')))
})

test('where there is only a socket, it is the unit', async t => {
  const { ran, unit } = running(t, { 'a.socket': SOCKET }, 'a.service')
  t.ok(await unit.isInstalled())
  await unit.setEnabled(true)
  await unit.activate(true, false, true)
  await unit.setEnabled(false)
  await unit.activate(false, true, true)
  t.strictSame(ran, ['enable a.socket', 'restart a.socket', 'disable a.socket', 'stop a.socket'])
})

test('it is restarted for rewritten files, unless it is stopped', async t => {
  const { unit, systemd } = running(t, { 'a.service': INSTALL, 'a.socket': SOCKET }, 'a.service')
  await unit.activate(true, true, true)
  t.equal(systemd.text, '', 'a unit that somebody stopped')
  await systemd.systemctl(['systemctl', 'restart', 'a.service'])
  await unit.activate(true, true, false)
  t.equal(systemd.text, 'a.service runs, started 1 times\n', 'nothing was rewritten')
  await unit.activate(true, true, true)
  t.equal(systemd.text, 'a.service runs, started 2 times\n')
})

test('a unit that is stopped just before it is restarted stays stopped', async t => {
  const { root, systemd } = running(t, { 'a.service': INSTALL }, 'a.service')
  await systemd.systemctl(['systemctl', 'restart', 'a.service'])
  const run: Run = async argv => {
    const output = await systemd.systemctl(argv)
    if (argv[1] === 'show') await systemd.systemctl(['systemctl', 'stop', 'a.service'])
    return output
  }
  t.ok(await new Unit(new System(root, { running: true, run }), 'a.service').restart())
  t.notOk(systemd.isActive('a.service'))
})

test('a unit that is being started is restarted once it runs, unless it is stopped first', async t => {
  const { root } = rootWith(t, { 'a.service': INSTALL }, 'a.service')
  for (const [last, restarted, { restartsItself = false, isNeeded = true } = {}] of [
    ['active', ['try-restart']],
    ['active', [], { restartsItself: true, isNeeded: false }],
    ['inactive', []],
    ['failed', ['restart']],
    ['failed', ['restart'], { isNeeded: false }],
    ['activating\nauto-restart', [], { restartsItself: true }],
  ] as const) {
    const states = ['activating', 'activating', last]
    const ran: string[] = []
    const run: Run = async ([, verb = '']) => {
      if (verb !== 'show') ran.push(verb)
      return verb === 'show' ? `${states.shift()}\n` : ''
    }
    t.equal(
      await new Unit(new System(root, { running: true, run }), 'a.service').restart(async () => isNeeded),
      restartsItself || restarted.length > 0,
    )
    t.same(ran, restarted)
  }
})

test('a unit that failed is started again by the undo of the change that made it fail', async t => {
  const { unit, systemd } = running(t, { 'a.service': INSTALL }, 'a.service')
  await systemd.systemctl(['systemctl', 'restart', 'a.service'])
  systemd.onStart = () => {
    throw new Error('bad configuration')
  }
  await t.rejects(unit.activate(true, true, true), new HalError('COMMAND_FAILED', 'systemctl failed with status 1'))
  t.notOk(systemd.isActive('a.service'))
  systemd.onStart = () => undefined
  await unit.activate(true, true, true)
  t.ok(systemd.isActive('a.service'))
})

test('on another root, links of folders are not followed out of it', async t => {
  const { root, link, unit } = rootWith(t, { 'a.service': INSTALL }, 'a.service')
  const host = temporaryFolder(t)
  const wants = 'multi-user.target.wants'
  mkdirSync(join(host, wants))
  link(`${ETC}/${wants}`, join(host, wants))
  await unit.setEnabled(true)
  t.throws(() => lstatSync(join(host, wants, 'a.service')), 'nothing is made there')

  rmSync(join(root, ETC), { recursive: true })
  symlinkSync(`${VENDOR}/a.service`, join(host, wants, 'a.service'))
  link(ETC, host)
  t.ok(await unit.isEnabled(), 'the link leads to a folder of that root')
  t.ok(await unit.setEnabled(false))
  t.notOk(await unit.isEnabled())
  t.ok(lstatSync(join(host, wants, 'a.service')), 'nothing is removed there')
})

test('a restart does not cancel a stop that is under way', async t => {
  const { root } = rootWith(t, { 'a.service': INSTALL }, 'a.service')
  const ran: string[] = []
  let state = 'active'
  const system = new System(root, {
    running: true,
    run: async ([, verb = '']) => {
      ran.push(verb)
      const before = state
      if (verb === 'stop') {
        await sleep(100)
        state = 'inactive'
      }
      return verb === 'show' ? before : ''
    },
  })
  // Two that share nothing but the system, as a setting and an engine do.
  const stopped = new Unit(system, 'a.service').activate(false, true)
  t.equal(await new Unit(system, 'a.service').restart(), false)
  await stopped
  t.same(ran, ['stop', 'show'])
})
