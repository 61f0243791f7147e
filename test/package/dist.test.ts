/** For companies: the notices that the licenses ask for, and a tarball that installs without npm and network. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { bundledPackages, noticesOf } from '../../build/third-party.ts'

const OUT = join(REPOSITORY, 'build/out')
const LICENSE_OF = { '@noble/hashes': 'LICENSE', typebox: 'license' }
const metafile = () => JSON.parse(readFileSync(join(OUT, 'metafile.json'), 'utf8'))

t.test('each package in the bundle has its notice', async t => {
  const packages = bundledPackages(metafile())
  t.strictSame(packages, Object.keys(LICENSE_OF))
  const notices = readFileSync(join(OUT, 'THIRD-PARTY'), 'utf8')
  for (const [name, file] of Object.entries(LICENSE_OF))
    t.ok(notices.includes(readFileSync(join(REPOSITORY, 'node_modules', name, file), 'utf8').trim()), name)
})

t.test('a package without a notice, or with a license that asks for more, stops the build', async t => {
  const folder = t.testdir({
    silent: { 'package.json': '{"version":"1.0.0","license":"MIT"}' },
    viral: { 'package.json': '{"version":"1.0.0","license":"GPL-3.0"}', LICENSE: 'GPL' },
    fine: { 'package.json': '{"version":"1.0.0","license":"ISC"}', 'LICENSE.md': 'Copyright (c) Somebody' },
  })
  t.throws(() => noticesOf(['silent'], folder), { message: /^silent must not be .*no file with its license/ })
  t.throws(() => noticesOf(['fine', 'viral'], folder), { message: /^viral must not be .*GPL-3\.0/ })
  t.match(noticesOf(['fine'], folder), /^fine 1\.0\.0\n\nISC\n\nCopyright \(c\) Somebody\n$/)
})

t.test('make dist', async t => {
  const version: string = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8')).version
  const make = () => {
    execFileSync('make', ['--assume-old=build', 'dist'], { cwd: REPOSITORY, stdio: 'pipe' })
    return readFileSync(join(OUT, `receiverd-${version}.tar.gz`))
  }
  const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
  const tarball = make()
  t.equal(digest(make()), digest(tarball), 'the same commit gives the same bytes')

  // A path with a space, and no npm.
  const folder = join(t.testdir(), 'a folder')
  const root = join(folder, 'the root')
  const tools = join(folder, 'tools')
  for (const name of [root, tools]) mkdirSync(name, { recursive: true })
  execFileSync('tar', ['-xzf', '-', '-C', folder], { input: tarball })
  for (const tool of ['make', 'install', 'sed', 'expand', 'sh'])
    execFileSync('ln', ['-s', execFileSync('which', [tool], { encoding: 'utf8' }).trim(), join(tools, tool)])
  const targets = ['install', 'install-uxplay', 'install-screen', 'install-tls', 'install-update']
  const source = join(folder, `receiverd-${version}`)
  const options = { cwd: source, env: { PATH: tools }, encoding: 'utf8' } as const
  execFileSync('make', [...targets, `DESTDIR=${root}`], options)
  t.match(execFileSync('make', options), /^install +install the files/m, 'by itself, make says what there is')
  const program = join(root, 'usr/lib/receiverd/receiverd.cjs')
  t.equal(execFileSync(process.execPath, [program, '--version'], { encoding: 'utf8' }), `receiverd ${version}\n`)
  for (const path of ['usr/bin/receiverd', 'usr/lib/receiverd/uxplay'])
    t.equal(statSync(join(root, path)).mode & 0o777, 0o755)
  for (const unit of ['receiverd', 'uxplay', 'weston', 'receiverd-card'])
    t.ok(existsSync(join(root, `usr/lib/systemd/system/${unit}.service`)), unit)
  t.match(readdirSync(join(root, 'usr/share/doc/receiverd')).sort(), ['THIRD-PARTY', 'copyright', 'examples'])

  const sbom = JSON.parse(readFileSync(join(source, 'sbom.cdx.json'), 'utf8'))
  t.match(sbom, { bomFormat: 'CycloneDX', metadata: { component: { name: 'receiverd', version } } })
  const listed = (sbom.components as { name: string }[]).map(({ name }) => name)
  t.strictSame(listed.sort(), bundledPackages(metafile()), 'the packages in the bundle, and no others')
  const checksum = createHash('md5')
    .update(readFileSync(join(source, 'LICENSE')))
    .digest('hex')
  const guide = readFileSync(join(REPOSITORY, 'build/package/README.md'), 'utf8')
  t.match(guide, `LIC_FILES_CHKSUM = "file://LICENSE;md5=${checksum}"`, 'as the recipe says')
  for (const name of ['LICENSE', 'THIRD-PARTY', 'CHANGELOG.md']) t.ok(existsSync(join(source, name)), name)
})
