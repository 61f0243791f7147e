/** The process of receiverd-fleet: its command line, its signals, its exit status. Nothing imports this. */
import { dirname, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode, reasonOf } from '../../hal/errors.ts'
import type { LargeFile } from '../../hal/files/read.ts'
import { closest } from '../../hal/format/closest.ts'
import { runCommand } from '../../hal/os/command.ts'
import { claimFolder } from '../../hal/os/lock.ts'
import { VERSION } from '../build-info.ts'
import { findReceivers } from '../cli/discover.ts'
import { CommandError, describeFailure } from '../cli/failure.ts'
import { requireAsking } from '../cli/person.ts'
import { requireNode } from '../config.ts'
import { lineLog, printable } from '../log.ts'
import { UsageError } from '../usage-error.ts'
import { type Member, membersOf, membersWithoutCredentials } from './access.ts'
import { apply, diff } from './apply.ts'
import { afterAsking } from './asking.ts'
import { backup, backupsOf } from './backup.ts'
import { certificatesOf } from './certificates.ts'
import { type Changing, type Chosen, type Command, type Common, type Printing, parseCommand } from './cli.ts'
import { fleetFileOf } from './discover.ts'
import { HERE, readEarlier, readOwn, readPrivateIfThere, writeOwn } from './files.ts'
import { type Fleet, type FleetDevice, parseFleet } from './fleet-file.ts'
import { inventoryOf } from './inventory.ts'
import { addIssuer, publicKeyOf, removeIssuer } from './issuer.ts'
import { KeyFile } from './key-file.ts'
import { list } from './list.ts'
import { carryOut } from './operation.ts'
import { FAILURE, INTERRUPTED, listed, USAGE_ERROR } from './report.ts'
import { rotateKeys } from './rotate.ts'
import { targetsOf } from './targets.ts'
import { issueFleetToken } from './token.ts'
import { type Ui, uiAt } from './ui.ts'
import { discard, updateFleet } from './update.ts'
import { countOf, type RollOutOptions } from './waves.ts'

const { env } = process
// Half of its threads look up names, and each waits until a silent name server is given up, whoever still wants the name. All are
// started when the first one is needed, so this comes in time.
env.UV_THREADPOOL_SIZE ??= '128'
process.stdout.on('error', error => {
  complain(`cannot write to stdout: ${reasonOf(error)}`)
  process.exit(FAILURE)
})
process.stderr.on('error', () => undefined)
const complain = (message: string) => process.stderr.write(`${printable(`receiverd-fleet: ${message}`)}\n`)

/** @returns the exit status. */
async function run(command: Command): Promise<number> {
  if (command.name === 'print') {
    process.stdout.write(command.text)
    return 0
  }
  if (command.name === 'discover') {
    const found = await findReceivers(runCommand)
    process.stdout.write(command.isJson ? `${JSON.stringify(found, null, 2)}\n` : fleetFileOf(found))
    return 0
  }
  if (command.name === 'token') {
    const path = resolve(command.keyFile)
    const pem = await readPrivateIfThere(path)
    if (pem === undefined)
      throw new UsageError(`--issuer-key: there is no ${path}; receiverd-fleet token --help says how to make a key`)
    return printed(`${issueFleetToken(pem, command.token, Date.now())}\n`, command, MODE_OF_TOKENS)
  }
  if (command.name === 'targets') {
    const devices = devicesOf(await fleetOf(command), command)
    const open = devices.filter(({ proof }) => proof.kind === 'none').map(({ name }) => name)
    if (open.length > 0)
      complain(`warning: Prometheus sends its token in clear to devices that are reached by http: ${listed(open)}`)
    return printed(targetsOf(devices), command, MODE_OF_LISTS)
  }
  if (command.name === 'inventory') {
    const fleet = await fleetOf(command)
    process.stdout.write(await inventoryOf(fleet, devicesOf(fleet, command), runCommand))
    return 0
  }
  if (command.name === 'bridge') return bridge(command)
  const ui = uiAt(process, command.isJson)
  const options: RollOutOptions = {
    waves: [],
    isKeptGoing: false,
    limit: command.limit,
    ...stopAtInterrupt(ui),
    ui,
  }
  switch (command.name) {
    case 'list':
      return list(await chosen(command), options)
    case 'diff':
      return diff(wanted(await chosen(command)), options)
    case 'certificates': {
      const fleet = await fleetOf(command)
      const members = await membersWithoutCredentials(devicesOf(fleet, command), access(command))
      const before = command.output === undefined ? undefined : ((await readEarlier(resolve(command.output))) ?? '')
      const [pem, status] = await certificatesOf(members, fleet.devices, before, options)
      if (pem === '') throw new CommandError('no device has shown a certificate')
      return (await printed(pem, command, MODE_OF_LISTS)) || status
    }
    case 'run': {
      const members = await chosenToChange(command)
      const question = `Have ${countOf(members.length)} carry out ${command.operation}?`
      return afterAsking(members, question, { ...options, ...command }, member => carryOut(member, command.operation))
    }
    case 'add-issuer': {
      const { issuer, file, roles, maxAgeS } = command
      const path = resolve(file)
      const publicKey = publicKeyOf(await readOwn(path), path)
      const given = { publicKey, roles: [...roles], ...(maxAgeS !== undefined && { maxAgeS }) }
      const members = await chosenToChange(command)
      const question = `Have ${countOf(members.length)} accept tokens of the issuer ${issuer}, for ${roles.join(' and ')} at most?`
      return afterAsking(members, question, { ...options, ...command }, member => addIssuer(member, issuer, given))
    }
    case 'remove-issuer': {
      const members = await chosenToChange(command)
      const question = `Have ${countOf(members.length)} refuse all tokens of the issuer ${command.issuer}?`
      return afterAsking(members, question, { ...options, ...command }, member => removeIssuer(member, command.issuer))
    }
    case 'update': {
      requireAnswer(command)
      const file = await bundleAt(command.file)
      try {
        return await updateFleet(await chosen(command), file, { ...options, ...command, ...TIME })
      } finally {
        file.close()
      }
    }
    case 'discard-update': {
      const members = await chosenToChange(command)
      const question = `Have ${countOf(members.length)} discard a new version that has not started yet?`
      return afterAsking(members, question, { ...options, ...command }, member => discard(member.client()))
    }
    case 'rotate-keys':
      return rotate(command, options)
    case 'backup':
      return backup(await chosen(command), resolve(command.folder), command.withIdentity, options)
    case 'apply':
    case 'restore': {
      const members = await chosenToChange(command)
      const all = command.name === 'apply' ? wanted(members) : await backupsOf(members, resolve(command.folder))
      return apply(all, { ...options, ...command, ...TIME, lostMs: LOST_FACTOR * command.timeoutMs })
    }
  }
}

/** Runs the bridge until a signal stops it. @returns the exit status. */
async function bridge(command: Common): Promise<number> {
  const fleet = await fleetOf(command)
  const stop = new AbortController()
  const end = () => stop.abort()
  process.once('SIGINT', end).once('SIGTERM', end)
  // No other command needs its dependencies.
  const { runBridge } = await import('./bridge/bridge.ts')
  await runBridge(fleet, devicesOf(fleet, command), {
    run: runCommand,
    env,
    timeoutMs: command.timeoutMs,
    version: VERSION,
    log: lineLog(line => process.stderr.write(line)),
    random: Math.random,
    now: Date.now,
    signal: stop.signal,
  })
  return 0
}

/** Programs that read tokens are in the file's group. */
const MODE_OF_TOKENS = 0o640
const MODE_OF_LISTS = 0o644

/** Prints a text, or replaces the content of a file with it, in one step. @returns the exit status. */
async function printed(text: string, { output }: Printing, mode: number): Promise<number> {
  if (output === undefined) process.stdout.write(text)
  else await writeOwn(resolve(output), text, mode)
  return 0
}

/** After how many timeouts a device that has not answered a change is given up. */
const LOST_FACTOR = 3
const TIME = { wait: sleep, now: () => performance.now() }

function wanted(members: readonly Member[]) {
  return members.map(member => ({ member, settings: member.device.settings }))
}

/** Opens a bundle. @throws {UsageError} if it cannot be read. */
async function bundleAt(path: string): Promise<LargeFile> {
  const file = await HERE.openLarge(resolve(path)).catch(error => {
    throw new UsageError(`update: ${path}: ${reasonOf(error)}`)
  })
  if (!file) throw new UsageError(`update: there is no ${path}`)
  return file
}

async function rotate(command: Command & { readonly name: 'rotate-keys' }, options: RollOutOptions): Promise<number> {
  requireAnswer(command)
  const { keys } = await fleetOf(command)
  if (keys === undefined) throw new UsageError(`${command.fleet} names no file of keys: keys: keys.csv`)
  const file = new KeyFile(keys)
  await claimKeys(dirname(file.target), options.ui)
  await file.finish()
  const members = await chosen(command)
  const elsewhere = members.filter(member => !member.keys).map(({ device }) => device.name)
  if (elsewhere.length > 0)
    throw new UsageError(`rotate-keys: these have no key in ${keys}: ${listed(elsewhere)}; choose others by --device`)
  return rotateKeys(members, file, { ...options, ...command, wait: sleep })
}

/** Claims the key file: of two processes that replace keys, one would lose the keys of the other. */
async function claimKeys(folder: string, ui: Ui): Promise<void> {
  try {
    await claimFolder(folder)
  } catch (error) {
    if (errorCode(error) === 'IN_USE')
      throw new CommandError(`another receiverd-fleet is replacing the keys in ${folder}`)
    if (errorCode(error) !== 'COMMAND_FAILED') throw error
    ui.note(`warning: cannot tell whether another receiverd-fleet is replacing keys: ${reasonOf(error)}`)
  }
}

/** The devices that the command is about, and ways to them. */
async function chosen(command: Common): Promise<readonly Member[]> {
  const fleet = await fleetOf(command)
  return membersOf(fleet, devicesOf(fleet, command), access(command))
}

function access({ timeoutMs }: Common) {
  return { run: runCommand, env, timeoutMs }
}

async function fleetOf(command: Chosen): Promise<Fleet> {
  const path = resolve(command.fleet)
  const { text, isPrivate } = await readOwn(path)
  const fleet = parseFleet(text, path)
  if (fleet.hasSecrets && !isPrivate)
    throw new UsageError(
      `${path} has a key, a password or an address with a query, and others may read it: chmod 600 ${path}`,
    )
  return fleet
}

/** The same for a command that asks first. */
async function chosenToChange(command: Changing & { readonly name: string }): Promise<readonly Member[]> {
  requireAnswer(command)
  return chosen(command)
}

interface Asking {
  readonly name: string
  readonly isSure: boolean
  readonly isJson: boolean
}

/** @throws {UsageError} if nobody can answer. */
function requireAnswer({ name, isSure, isJson }: Asking): void {
  if (isJson && !isSure) throw new UsageError(`${name} --json cannot ask: give --yes as well`)
  requireAsking(name, isSure)
}

function devicesOf({ devices, groups }: Fleet, common: Chosen): readonly FleetDevice[] {
  requireKnown('--group', common.groups, groups)
  const names = devices.map(({ name }) => name)
  requireKnown('--device', common.devices, names)
  const isAll = common.groups.length === 0 && common.devices.length === 0
  const found = devices.filter(
    device =>
      isAll || common.devices.includes(device.name) || device.groups.some(group => common.groups.includes(group)),
  )
  if (found.length === 0) throw new UsageError(`no device is in the group ${common.groups.join(', ')}`)
  return found
}

function requireKnown(option: string, given: readonly string[], known: readonly string[]): void {
  for (const name of given) {
    if (known.includes(name)) continue
    const meant = closest(name, known)
    throw new UsageError(
      `${option}: "${name}" is not in the fleet file${meant === undefined ? '' : `; did you mean ${meant}?`}`,
    )
  }
}

/** Milliseconds for the last report. */
const REPORT_MS = 1_000

/** The first Ctrl-C begins no further device, and the second one waits for none. One in place of an answer ends the program. */
function stopAtInterrupt(ui: Ui): Pick<RollOutOptions, 'stop' | 'halted'> {
  const stop = new AbortController()
  let halt = () => {}
  const halted = new Promise<never>((_, reject) => {
    halt = () => reject(new CommandError('interrupted: its outcome is unknown'))
  })
  // Not every command waits for devices.
  halted.catch(() => undefined)
  const interrupt = () => {
    if (stop.signal.aborted) {
      halt()
      setTimeout(() => process.exit(INTERRUPTED), REPORT_MS)
      return
    }
    if (ui.isAsking) {
      process.stderr.write('\n')
      ui.note('Nothing was done.')
      process.exit(INTERRUPTED)
    }
    stop.abort()
    ui.note('No further device is begun. Press Ctrl-C again to end at once.')
  }
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt)
  return { stop: stop.signal, halted }
}

async function main(): Promise<number> {
  try {
    requireNode(process.versions.node)
    return await run(parseCommand(process.argv.slice(2), VERSION))
  } catch (error) {
    const isExpected = error instanceof UsageError || error instanceof CommandError
    complain(isExpected || !(error instanceof Error) ? describeFailure(error, true) : `unexpected: ${error.stack}`)
    return error instanceof UsageError ? USAGE_ERROR : FAILURE
  }
}

// If a promise never settles, Node would exit with success.
process.exitCode = FAILURE
main().then(status => {
  // Once all is printed. Requests and names that nobody waits for any longer would keep the program running.
  process.stdout.write('', () => process.exit(status))
})
