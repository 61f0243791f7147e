/** The process of receiverd-fleet: its command line, its signals, its exit status. Nothing imports this. */
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { reasonOf } from '../../hal/errors.ts'
import { closest } from '../../hal/format/closest.ts'
import { runCommand } from '../../hal/os/command.ts'
import { VERSION } from '../build-info.ts'
import { CommandError, describeFailure } from '../cli/failure.ts'
import { requireNode } from '../config.ts'
import { printable } from '../log.ts'
import { UsageError } from '../usage-error.ts'
import { type Member, membersOf } from './access.ts'
import { apply, diff } from './apply.ts'
import { type Changing, type Command, type Common, parseCommand } from './cli.ts'
import { readOwn } from './files.ts'
import { type Fleet, type FleetDevice, parseFleet } from './fleet-file.ts'
import { list } from './list.ts'
import { FAILURE, INTERRUPTED, USAGE_ERROR } from './report.ts'
import { type Ui, uiAt } from './ui.ts'
import type { RollOutOptions } from './waves.ts'

const { env } = process
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
  const ui = uiAt(process, command.isJson)
  const stop = stopAtInterrupt(ui)
  const options: RollOutOptions = { waves: [], isKeptGoing: false, limit: command.limit, stop, ui }
  switch (command.name) {
    case 'list':
      return list(await chosen(command), options)
    case 'diff':
      return diff(wanted(await chosen(command)), options)
    case 'apply':
      return apply(wanted(await chosenToChange(command)), { ...options, ...command, ...TIME })
  }
}

const TIME = { wait: sleep, now: () => performance.now() }

function wanted(members: readonly Member[]) {
  return members.map(member => ({ member, settings: member.device.settings }))
}

/** Ways to the devices that the command is about. */
async function chosen(command: Common): Promise<readonly Member[]> {
  const path = resolve(command.fleet)
  const { text, isPrivate } = await readOwn(path)
  const fleet = parseFleet(text, path)
  if (fleet.hasSecrets && !isPrivate)
    throw new UsageError(`${path} has a key or a password, and others may read it: chmod 600 ${path}`)
  return membersOf(fleet, devicesOf(fleet, command), { run: runCommand, env, timeoutMs: command.timeoutMs })
}

/** The same for a command that asks first. @throws {UsageError} if nobody can answer. */
async function chosenToChange(command: Changing & { readonly name: string }): Promise<readonly Member[]> {
  if (!command.isSure && (command.isJson || !process.stdin.isTTY))
    throw new UsageError(
      command.isJson
        ? `${command.name} --json cannot ask: give --yes as well, or see what would change by diff --json`
        : `${command.name}: no terminal to ask on; --yes does not ask, and diff says what would change`,
    )
  return chosen(command)
}

function devicesOf({ devices, groups }: Fleet, common: Common): readonly FleetDevice[] {
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

/** Aborted by the first Ctrl-C; the second one ends the program. */
function stopAtInterrupt(ui: Ui): AbortSignal {
  const stop = new AbortController()
  const interrupt = () => {
    if (stop.signal.aborted) process.exit(INTERRUPTED)
    stop.abort()
    ui.note('No further device is begun. Press Ctrl-C again to end at once.')
  }
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt)
  return stop.signal
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

main().then(status => {
  process.exitCode = status
})
