/**
 * The boot script in the real U-Boot: which system it starts in every state of the counters, and how it leaves them. Instead of
 * Linux, the systems have programs of a few instructions, which switch the device off, or restart it as a panic does.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { temporaryFolder } from '../support/folder.ts'
import { QEMU, U_BOOT } from './boards.ts'
import { STATE_COPY_OFFSET } from './disk.ts'

const MIB = 1024 ** 2
const STATE_BYTES = 512
const RUN_MS = 120_000
/** Where the partitions of the disk begin and how large they are, in MiB. All are small. */
const BOOT = { start: 4, size: 34 }
const SLOTS = { A: { start: 40, size: 8 }, B: { start: 48, size: 8 } }
type Slot = keyof typeof SLOTS
/** Function identifiers of PSCI (Arm DEN 0022, 5.1). */
const PSCI = { off: 0x84000008, restart: 0x84000009 } as const
type Program = keyof typeof PSCI | 'missing' | 'without initrd' | 'damaged'

interface State {
  readonly order?: string
  readonly a: string
  readonly b: string
}

const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin`, MTOOLS_SKIP_CHECK: '1' }
const run = (command: string, args: readonly string[], input?: string) =>
  execFileSync(command, args, { env, stdio: 'pipe', ...(input !== undefined && { input }) })

/** An Image as the kernel's Documentation/arch/arm64/booting.rst describes it, which makes one call to PSCI. */
function image(call: number): Buffer {
  const bytes = Buffer.alloc(4096)
  bytes.writeUInt32LE(0x14000010, 0) // b #64
  bytes.writeBigUInt64LE(BigInt(bytes.length), 16)
  bytes.writeBigUInt64LE(0xan, 24)
  bytes.write('ARM\x64', 56, 'latin1')
  const movz = 0x52800000 | ((call & 0xffff) << 5)
  const movk = 0x72a00000 | ((call >>> 16) << 5)
  const code = [movz, movk, 0xd4000002 /* hvc #0 */, 0x14000000 /* b . */]
  for (const [at, word] of code.entries()) bytes.writeUInt32LE(word >>> 0, 64 + 4 * at)
  return bytes
}

/** A disk with these systems. */
function diskOf(programs: Readonly<Record<Slot, Program>>): string {
  const folder = temporaryFolder(t)
  const disk = join(folder, 'disk')
  run('truncate', ['--size=64M', disk])
  const parts = [BOOT, SLOTS.A, SLOTS.B].map(({ start, size }) => `start=${start}MiB, size=${size}MiB, type=83`)
  run('sfdisk', ['--quiet', disk], `label: dos\n${parts[0]}, bootable\n${parts.slice(1).join('\n')}\n`)
  const script = join(folder, 'boot.scr')
  run('mkimage', ['-A', 'arm64', '-T', 'script', '-C', 'none', '-d', join(REPOSITORY, 'build/image/boot.cmd'), script])
  const options = join(folder, 'cmdline.env')
  writeFileSync(options, 'more=console=ttyAMA0\n')
  const fat = join(folder, 'fat')
  run('mkfs.vfat', ['-C', '-F', '32', fat, `${(BOOT.size * MIB) / 1024}`])
  run('mcopy', ['-i', fat, script, options, '::/'])
  run('dd', [`if=${fat}`, `of=${disk}`, 'bs=1M', `seek=${BOOT.start}`, 'conv=notrunc,sparse'])
  for (const slot of ['A', 'B'] as const) {
    const program = programs[slot]
    const boot = join(folder, slot, 'boot')
    mkdirSync(boot, { recursive: true })
    if (program !== 'missing')
      writeFileSync(
        join(boot, 'vmlinuz'),
        program === 'damaged' ? Buffer.alloc(4096) : image(PSCI[program === 'restart' ? 'restart' : 'off']),
      )
    if (program !== 'without initrd') writeFileSync(join(boot, 'initrd.img'), 'an initrd\n'.repeat(100))
    const { start, size } = SLOTS[slot]
    run('mke2fs', ['-q', '-t', 'ext4', '-d', join(folder, slot), '-E', `offset=${start * MIB}`, disk, `${size}M`])
  }
  return disk
}

function writeState(disk: string, state: State | Buffer, offset = MIB): void {
  const file = openSync(disk, 'r+')
  writeSync(file, Buffer.isBuffer(state) ? state : sectorOf(state), 0, STATE_BYTES, offset)
}

/** A state as RAUC writes it: a U-Boot environment with its CRC. */
function sectorOf({ order, a, b }: State): Buffer {
  const bytes = Buffer.alloc(STATE_BYTES)
  const variables = [...(order === undefined ? [] : [`BOOT_ORDER=${order}`]), `BOOT_A_LEFT=${a}`, `BOOT_B_LEFT=${b}`]
  bytes.write(`${variables.join('\0')}\0`, 4)
  bytes.writeUInt32LE(crc32(bytes.subarray(4)))
  return bytes
}

function readState(disk: string): State {
  const bytes = Buffer.alloc(STATE_BYTES)
  readSync(openSync(disk, 'r'), bytes, 0, STATE_BYTES, MIB)
  t.equal(bytes.readUInt32LE(), crc32(bytes.subarray(4)), 'the state has its checksum')
  const value = (name: string) => new RegExp(`(?:^|\0)${name}=([^\0]*)\0`).exec(bytes.toString('latin1', 4))?.[1] ?? ''
  return { order: value('BOOT_ORDER'), a: value('BOOT_A_LEFT'), b: value('BOOT_B_LEFT') }
}

/** Switches the device on, and waits until it is off. @returns the systems that it has tried to start, in order. */
async function started(disk: string): Promise<string> {
  const options = ['-M', 'virt', '-cpu', 'cortex-a72', '-m', '1024', '-display', 'none', '-monitor', 'none']
  const drive = ['-drive', `if=none,id=disk,file=${disk},format=raw`, '-device', 'virtio-blk-pci,drive=disk']
  const qemu = spawn(QEMU, [...options, '-bios', U_BOOT, '-serial', 'stdio', '-net', 'none', ...drive])
  const killer = setTimeout(() => qemu.kill('SIGKILL'), RUN_MS)
  let console = ''
  let errors = ''
  qemu.stdout.setEncoding('utf8').on('data', text => {
    console += text
  })
  qemu.stderr.setEncoding('utf8').on('data', text => {
    errors += text
  })
  const [status] = await once(qemu, 'close')
  clearTimeout(killer)
  if (status !== 0) throw new Error(`QEMU ended with ${status ?? `no status after ${RUN_MS} ms`}: ${errors}${console}`)
  const lines = Array.from(console.matchAll(/^receiver: (starting ([AB])|([AB]) cannot be loaded)/gm))
  return lines.map(([, , start, refused]) => start ?? `${refused} fails`).join(', ')
}

const skip = !existsSync(U_BOOT) && `there is no ${U_BOOT}: run make image first`
t.setTimeout(20 * 60_000)

t.test('good systems', { skip }, async t => {
  const disk = diskOf({ A: 'off', B: 'off' })
  for (const [what, before, start, after] of [
    ['the first one', { order: 'A', a: '14', b: '0' }, 'A', { order: 'A', a: '13', b: '0' }],
    ['an update on trial', { order: 'B A', a: '14', b: '3' }, 'B', { order: 'B A', a: '14', b: '2' }],
    ['its last attempt', { order: 'B A', a: '14', b: '1' }, 'B', { order: 'B A', a: '14', b: '0' }],
    ['none left', { order: 'B A', a: '14', b: '0' }, 'A', { order: 'B A', a: '13', b: '0' }],
    ['numbers are hexadecimal', { order: 'A B', a: 'a', b: '3' }, 'A', { order: 'A B', a: '9', b: '3' }],
    ['half written, so not in the order', { order: 'A', a: '0', b: '3' }, 'A', { order: 'A', a: '2', b: '3' }],
    ['both have none left', { order: 'B A', a: '0', b: '0' }, 'B', { order: 'B A', a: '3', b: '2' }],
    ['a power cut before the order was written', { order: 'A', a: '14', b: '3' }, 'A', { order: 'A', a: '13', b: '3' }],
  ] as const) {
    writeState(disk, before)
    t.equal(await started(disk), start, what)
    t.same(readState(disk), after, what)
  }
})

t.test('a state that is lost', { skip }, async t => {
  const disk = diskOf({ A: 'off', B: 'off' })
  const torn = sectorOf({ order: 'A', a: '14', b: '0' })
  torn[40] = 0
  for (const sector of [Buffer.alloc(STATE_BYTES), Buffer.alloc(STATE_BYTES, 0xff), torn]) {
    writeState(disk, sector)
    t.equal(await started(disk), 'A')
    t.same(readState(disk), { order: 'A B', a: '2', b: '3' })
  }
})

t.test('a state of which only the copy is left', { skip }, async t => {
  const disk = diskOf({ A: 'off', B: 'off' })
  const lost = Buffer.alloc(STATE_BYTES, 0xff)
  writeState(disk, { order: 'B', a: '14', b: '14' })
  t.equal(await started(disk), 'B')
  writeState(disk, lost)
  t.equal(await started(disk), 'B', 'A has been found to be bad')
  t.same(readState(disk), { order: 'B', a: '14', b: '13' })
  writeState(disk, { order: 'A B', a: '14', b: '14' })
  t.equal(await started(disk), 'A')
  writeState(disk, lost, STATE_COPY_OFFSET)
  t.equal(await started(disk), 'A', 'a copy that is lost is made again')
  writeState(disk, lost)
  t.equal(await started(disk), 'A')
  t.same(readState(disk), { order: 'A B', a: '12', b: '14' })
})

t.test('a system that panics is tried as often as it may be, and then the other one', { skip }, async t => {
  const disk = diskOf({ A: 'off', B: 'restart' })
  writeState(disk, { order: 'B A', a: '14', b: '3' })
  t.equal(await started(disk), 'B, B, B, A')
  t.same(readState(disk), { order: 'B A', a: '13', b: '0' })
})

for (const broken of ['missing', 'without initrd', 'damaged'] as const)
  t.test(`a system whose kernel cannot be started: ${broken}`, { skip }, async t => {
    const disk = diskOf({ A: 'off', B: broken })
    writeState(disk, { order: 'B A', a: '14', b: '3' })
    t.equal(await started(disk), 'B, B fails, A')
    t.same(readState(disk), { order: 'B A', a: '13', b: '2' })
  })
