// Serves a throw-away device: a copy of the tests' receiver below build/out/, so that nothing on this machine changes.
import { spawn } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { currentBundle } from './bundle-file.ts'

const ROOT = resolve('build/out/device')
const bundle = currentBundle()
const listen = process.env.RECEIVERD_LISTEN ?? '127.0.0.1:8080'

rmSync(ROOT, { recursive: true, force: true })
cpSync('test/fixtures/receiver', ROOT, { recursive: true, verbatimSymlinks: true })

const service = spawn(process.execPath, [bundle, 'serve', '--root', ROOT, '--listen', listen], {
  // In a process group of its own: Ctrl-C at a terminal reaches this process alone, which passes it on once.
  detached: true,
  stdio: ['ignore', 'inherit', 'pipe'],
  env: { PATH: process.env.PATH },
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => service.kill('SIGTERM'))
service.on('exit', status => {
  process.exitCode = status ?? 1
})
createInterface({ input: service.stderr }).on('line', line => {
  console.log(line.replace(/^<\d>/, ''))
  const address = /listening on (http:\S+)/.exec(line)?.[1]
  if (address) introduce(address)
})

function introduce(address: string): void {
  const show = spawn(process.execPath, [bundle, 'key', 'show', '--root', ROOT], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  show.stdout.setEncoding('utf8').once('data', (output: string) => {
    const key = output.trim()
    console.log(`
Serving a receiver from build/out/device. Press Ctrl-C to stop.

  address  ${address}
  API key  ${key}

Read the configuration:
  curl -H 'Authorization: Bearer ${key}' ${address}/api/v1/system

Follow changes (leave this running):
  curl -N -H 'Authorization: Bearer ${key}' -H 'Accept: text/event-stream' ${address}/api/v1/events

Change the name of the device, in another terminal:
  curl -X PATCH -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '{"deviceName":"Lobby"}' ${address}/api/v1/system
`)
  })
}
