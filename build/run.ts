// Serves a throw-away device: a copy of the tests' receiver under build/out/, so that nothing on this machine changes.
import { spawn } from 'node:child_process'
import { accessSync, constants, cpSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { relative, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { currentBundle } from './bundle-file.ts'

const ROOT = resolve('build/out/device')
// Outside the root, like that of a device whose image holds no key.
const STATE = resolve('build/out/device-state')
// Relative: the path of a Unix socket has at most 107 bytes (unix(7)).
const LOCK = 'build/out/device.lock'
// Relative for the same reason.
const ENGINES = 'build/out/engines.sock'
const PLACE = ['--root', ROOT, '--state-dir', STATE]
const listen = process.env.RECEIVERD_LISTEN || '127.0.0.1:8080'

/** Takes the lock, which is a socket that this process listens on: it is free again when the process ends, however it ends. */
async function takeLock(): Promise<void> {
  const holder = await holderOf(LOCK)
  if (holder !== undefined)
    throw new Error(`it is already running; press Ctrl-C in its terminal, or end it first: kill ${holder}`)
  rmSync(LOCK, { force: true })
  const server = createServer(socket => socket.end(String(process.pid))).unref()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(LOCK, resolve))
}

/** The ID of the process that listens on the lock, as that process reports it; undefined if none does. */
function holderOf(path: string): Promise<string | undefined> {
  return new Promise(resolve => {
    let pid = ''
    connect(path)
      .setEncoding('utf8')
      .on('data', chunk => {
        pid += chunk
      })
      .on('end', () => resolve(pid))
      .on('error', () => resolve(undefined))
  })
}

function makeDevice(): void {
  for (const folder of [ROOT, STATE]) rmSync(folder, { recursive: true, force: true })
  cpSync('test/fixtures/receiver', ROOT, { recursive: true, verbatimSymlinks: true })
}

function serve(bundle: string): void {
  const service = spawn(process.execPath, [bundle, 'serve', ...PLACE, '--listen', listen, '--engines', ENGINES], {
    // In a process group of its own: Ctrl-C at a terminal reaches only this process, which passes it on once.
    detached: true,
    stdio: ['ignore', 'inherit', 'pipe'],
    env: { PATH: process.env.PATH, ...options() },
  })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => service.kill('SIGTERM'))
  service.on('exit', status => {
    process.exitCode = status ?? 1
  })
  createInterface({ input: service.stderr }).on('line', line => {
    console.log(line.replace(/^<\d>/, ''))
    const address = /listening on (http:\S+)/.exec(line)?.[1]
    if (address) introduce(bundle, address)
    if (line.includes('EADDRINUSE')) console.log('For another port: RECEIVERD_LISTEN=127.0.0.1:8081 make run')
  })
}

/** The options in this process's environment, except those that decide where it listens and what it changes. */
function options(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^RECEIVERD_(?!(ROOT|LISTEN|ENGINES)$)/.test(name)),
  )
}

function introduce(bundle: string, address: string): void {
  const program = `node ${relative('.', bundle)}`
  const show = spawn(process.execPath, [bundle, 'key', 'show', ...PLACE], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  show.stdout.setEncoding('utf8').once('data', (output: string) => {
    const key = output.trim()
    console.log(`
Serving a receiver from build/out/device. Press Ctrl-C to stop.
Only its files are here, so it can change every setting, but not reboot, show a log or be updated: the page has no view Update.

  page     ${address}/#key=${key}
  address  ${address}
  API key  ${key}

Make a token, here for a moderator:
  ${program} token --role moderator:rw --root '${ROOT}' --state-dir '${STATE}'

Read the configuration:
  curl -H 'Authorization: Bearer ${key}' ${address}/api/v1/system

Follow its changes (leave this running, in another terminal):
  curl -N -H 'Authorization: Bearer ${key}' -H 'Accept: text/event-stream' ${address}/api/v1/events

Change the name of the device, in a third terminal:
  curl -X PATCH -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '{"deviceName":"Lobby"}' ${address}/api/v1/system

Have devices ask before they mirror:
  curl -X PATCH -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '{"moderation":{"approval":"moderator"}}' ${address}/api/v1/system

Play a device that asks; what it shows is a clock:
  ${program} session --protocol demo --name "Ann's phone" --engines ${ENGINES} -- sh -c 'while date; do sleep 1; done'

As a moderator, see it, let it in, and end it:
  curl -H 'Authorization: Bearer ${key}' ${address}/api/v1/sessions
  ID=$(curl -s -H 'Authorization: Bearer ${key}' ${address}/api/v1/sessions | sed -n 's/.*"id":"\\([^"]*\\)".*/\\1/p')
  curl -X POST -H 'Authorization: Bearer ${key}' ${address}/api/v1/sessions/$ID/admit
  curl -X DELETE -H 'Authorization: Bearer ${key}' ${address}/api/v1/sessions/$ID
`)
  })
}

try {
  accessSync('build/out', constants.W_OK)
  const bundle = currentBundle()
  await takeLock()
  makeDevice()
  serve(bundle)
} catch (error) {
  console.error(`make run: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
}
