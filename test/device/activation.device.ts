/**
 * A power cut around the activation of an update: all writes and flushes of an installation are recorded, and the disk is
 * made anew as a cut after each of them would have left it, also where a write before the cut was lost, or overtook others. Each such
 * disk is checked, and one of each kind is booted.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, ftruncateSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { temporaryFolder } from '../support/folder.ts'
import { type Entry, readWriteLog } from '../support/write-log.ts'
import { A_OFFSET, DISK_BYTES, virt } from './boards.ts'
import { makeBundle } from './bundle.ts'
import { factoryDisk, Machine } from './machine.ts'
import { TRIAL_MS, updating } from './updating.ts'

t.setTimeout(4 * 60 * 60_000)
const MIB = 1024 ** 2
/** The sector of the boot script's state. */
const STATE = { offset: MIB, length: 512 }
/** The power is cut after so many writes before and after one to the state; those of the written system lie between. */
const AROUND = 150
const comment = (line: string) => t.comment(line)
const folder = temporaryFolder(t)
const log = join(folder, 'writes')
const factory = factoryDisk(virt)

let entries: Entry[] = []
/** Of `entries`, when the installation began. */
let began = 0
let before: unknown

interface Range {
  readonly offset: number
  readonly length: number
}

/** System A, system B and the data, by the table that the first start has written. */
function partitions(): readonly [Range, Range, Range] {
  const table = entries.findLast(({ offset, length }) => offset === 0 && length > 0)
  if (table?.data === undefined) throw new Error('no table of partitions was written')
  const mbr = Buffer.alloc(512)
  const file = openSync(log, 'r')
  readSync(file, mbr, 0, mbr.length, table.data)
  closeSync(file)
  const partition = (number: number) => {
    const [offset, length] = [8, 12].map(at => mbr.readUInt32LE(446 + 16 * (number - 1) + at) * 512) as [number, number]
    return { offset, length }
  }
  return [partition(2), partition(3), partition(4)]
}

const isIn = ({ offset }: Entry, range: Range) => offset >= range.offset && offset < range.offset + range.length

/** The disk as it was after some of the entries. The data partition is a file of its own, so that it can be copied. */
class Replay {
  readonly path: string
  readonly dataPath: string
  readonly #log: number
  readonly #disk: number
  readonly #data: number
  readonly #dataRange: Range

  constructor(name: string, dataRange: Range) {
    this.path = join(folder, `${name}.img`)
    this.dataPath = join(folder, `${name}.data`)
    execFileSync('cp', ['--sparse=always', factory.path, this.path])
    this.#disk = openSync(this.path, 'r+')
    ftruncateSync(this.#disk, DISK_BYTES)
    // The image has the beginning of its data.
    const skip = `skip=${dataRange.offset / MIB}`
    execFileSync('dd', [`if=${factory.path}`, `of=${this.dataPath}`, 'bs=1M', skip, 'conv=sparse'], { stdio: 'pipe' })
    this.#data = openSync(this.dataPath, 'r+')
    ftruncateSync(this.#data, dataRange.length)
    this.#log = openSync(log, 'r')
    this.#dataRange = dataRange
  }

  apply(entry: Entry): void {
    if (entry.data === undefined || entry.length === 0) return
    const bytes = Buffer.alloc(entry.length)
    readSync(this.#log, bytes, 0, entry.length, entry.data)
    this.#write(entry, bytes)
  }

  /** Returns what undoes it. */
  tryOut(entries: readonly Entry[]): () => void {
    const before = entries.map(entry => [entry, this.read(entry)] as const)
    for (const entry of entries) this.apply(entry)
    return () => {
      for (const [entry, bytes] of before.reverse()) this.#write(entry, bytes)
    }
  }

  read({ offset, length }: Range): Buffer {
    const bytes = Buffer.alloc(length)
    const isData = this.#isData(offset)
    readSync(isData ? this.#data : this.#disk, bytes, 0, length, isData ? offset - this.#dataRange.offset : offset)
    return bytes
  }

  sha256({ offset, length }: Range): string {
    const hash = createHash('sha256')
    for (let at = 0; at < length; at += 16 * MIB)
      hash.update(this.read({ offset: offset + at, length: Math.min(16 * MIB, length - at) }))
    return hash.digest('hex')
  }

  /** A disk to boot, as a file. */
  save(path: string): void {
    execFileSync('cp', ['--sparse=always', this.path, path])
    const { offset, length } = this.#dataRange
    execFileSync('fallocate', ['--punch-hole', `--offset=${offset}`, `--length=${length}`, path])
    const seek = `seek=${offset / MIB}`
    execFileSync('dd', [`if=${this.dataPath}`, `of=${path}`, 'bs=1M', seek, 'conv=notrunc,sparse'], { stdio: 'pipe' })
  }

  close(): void {
    for (const file of [this.#disk, this.#data, this.#log]) closeSync(file)
    rmSync(this.path)
    rmSync(this.dataPath)
  }

  #write({ offset }: Range, bytes: Buffer): void {
    const isData = this.#isData(offset)
    writeSync(
      isData ? this.#data : this.#disk,
      bytes,
      0,
      bytes.length,
      isData ? offset - this.#dataRange.offset : offset,
    )
  }

  #isData(offset: number): boolean {
    return offset >= this.#dataRange.offset && offset < this.#dataRange.offset + this.#dataRange.length
  }
}

/** State found by a start. */
interface Found {
  readonly order: string
  readonly left: string
  /** The slot of `trial.json`, `-` without one. */
  readonly trial: string
}

/** @throws if the boot script would find no state, or a new start no data. */
function look(replay: Replay): Found {
  const sector = replay.read(STATE)
  if (sector.readUInt32LE() !== crc32(sector.subarray(4))) throw new Error('the boot state has a wrong checksum')
  const value = (name: string) => new RegExp(`(?:^|\0)${name}=([^\0]*)\0`).exec(sector.toString('latin1', 4))?.[1] ?? ''
  const copy = join(folder, 'checked')
  execFileSync('cp', ['--sparse=always', replay.dataPath, copy])
  try {
    // As a start does first after a cut: 1 if it has read the journal. Nothing may be left to mend.
    execFileSync('sh', ['-c', '/sbin/e2fsck -p "$1" || [ $? = 1 ]', 'sh', copy], { stdio: 'pipe' })
    execFileSync('/sbin/e2fsck', ['-f', '-n', copy], { stdio: 'pipe' })
  } catch (error) {
    throw new Error(`the data partition is damaged: ${(error as { stdout?: Buffer }).stdout}`)
  }
  const cat = (path: string) =>
    execFileSync('/sbin/debugfs', ['-R', `cat ${path}`, copy], { encoding: 'utf8', stdio: 'pipe' })
  if (cat('/state/etc/upper/hostname').trim() !== 'lobby') throw new Error('the settings are lost')
  const trial = cat('/update/trial.json')
  return {
    order: value('BOOT_ORDER'),
    left: `${value('BOOT_A_LEFT')}/${value('BOOT_B_LEFT')}`,
    trial: trial === '' ? '-' : (JSON.parse(trial) as { slot: string }).slot,
  }
}

t.test('an installation is recorded', async t => {
  const device = new Machine(factory, { writeLog: log })
  t.teardown(() => device.cutPower())
  const { configure, upload, install, identity } = updating(device, comment)
  await device.boot()
  await configure()
  await upload(makeBundle(folder, virt, '0.2.0'))
  before = await identity()
  await device.shell('sync')
  began = readWriteLog(log).length
  await install({ restart: 'manual' })
  await device.shell('sync')
  device.cutPower()
  entries = readWriteLog(log)
  t.comment(`${entries.length} writes and flushes`)
})

/** One disk of each kind, to be booted, and whether B starts on it. */
const kinds = new Map<string, readonly [disk: string, startsB: boolean]>()

t.test('each state that a cut leaves has a system to start, and the record that judges it', async t => {
  const byRauc = entries.flatMap((entry, index) =>
    index >= began && entry.length > 0 && isIn(entry, STATE) ? [index] : [],
  )
  t.ok(byRauc.length >= 2, `RAUC has written the boot state ${byRauc.length} times`)
  const [a, b, data] = partitions()
  t.equal(a.offset, A_OFFSET)
  t.same(
    entries.filter(entry => entry.length > 0 && isIn(entry, a)),
    [],
    'the system that runs is never written',
  )
  const written = entries.filter(entry => entry.data !== undefined && entry.length > 0 && isIn(entry, b))
  const system: Range = { offset: b.offset, length: Math.max(...written.map(e => e.offset + e.length)) - b.offset }
  const isNear = (index: number) => byRauc.some(at => Math.abs(index - at) <= AROUND)

  const whole = new Replay('whole', data)
  for (const entry of entries) whole.apply(entry)
  const installed = whole.sha256(system)
  whole.close()

  const replay = new Replay('replay', data)
  let checked = 0
  const check = (what: string) => {
    checked++
    const found = look(replay)
    const startsB = /^B/.test(found.order) && !found.left.endsWith('/0')
    if (startsB) {
      if (replay.sha256(system) !== installed) throw new Error(`${what}: B would start, and is not whole`)
      if (found.trial !== 'B') throw new Error(`${what}: B would start, and nobody judges it`)
    }
    const kind = JSON.stringify(found)
    if (kinds.has(kind)) return
    const disk = join(folder, `kind-${kinds.size}.img`)
    replay.save(disk)
    kinds.set(kind, [disk, startsB])
    t.comment(`${what}: ${kind}`)
  }
  /** Written, and not yet flushed. */
  let pending: Entry[] = []
  const settle = (some = pending) => {
    for (const entry of some) replay.apply(entry)
    pending = pending.filter(entry => !some.includes(entry))
  }
  for (const [index, entry] of entries.entries()) {
    const hasData = entry.length > 0
    if (!isNear(index)) {
      settle()
      if (hasData) replay.apply(entry)
      continue
    }
    if (entry.isFlush) {
      // None of the unflushed writes is on the disk, the last alone, or all but that.
      const subsets = [[], ...(pending.length > 1 ? [pending.slice(-1), pending.slice(0, -1)] : [])]
      for (const some of subsets) {
        const undo = replay.tryOut(some)
        check(`before ${index}, with ${some.length} of ${pending.length} writes`)
        undo()
      }
      settle()
    }
    if (!hasData) continue
    if (entry.isDurable) {
      settle(
        pending.filter(each => each.offset < entry.offset + entry.length && entry.offset < each.offset + each.length),
      )
      replay.apply(entry)
    } else pending.push(entry)
    if (isIn(entry, STATE)) {
      const undo = replay.tryOut([entry])
      check(`after ${index}, the boot state, without ${pending.length - 1} writes`)
      undo()
    }
  }
  settle()
  check('at the end')
  replay.close()
  t.comment(`${checked} states checked, ${kinds.size} kinds`)
  t.ok(checked > 20)
})

t.test('a disk of each kind is booted', async t => {
  for (const [kind, [disk, startsB]] of kinds) {
    const device = new Machine({ path: disk, board: virt })
    t.teardown(() => device.cutPower())
    const { settled, identity } = updating(device, comment)
    t.comment(`${kind}: ${(await device.boot()).toFixed(0)} s`)
    const slot = startsB ? 'B' : 'A'
    const now = await settled(({ running }) => running.slot === slot && running.state === 'good', TRIAL_MS)
    if (startsB) t.match(now, { running: { version: '0.2.0' }, last: { outcome: 'installed' } }, kind)
    await device.reconnect()
    t.same(await identity(), before, kind)
    t.comment(JSON.stringify(now))
    device.cutPower()
    rmSync(disk)
  }
})
