/** A machine leaves nothing behind, however its parent process ends. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { NO_RIG } from './available.ts'

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url))
const GONE_MS = 30_000

/** Boots a machine from another process. Resolves with that process, and with what the machine occupies on the host. */
async function boot(t: Test) {
  const child = spawn(process.execPath, ['--import=tsx', MAIN], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let text = ''
  child.stdout.setEncoding('utf8').on('data', chunk => {
    text += chunk
  })
  await eventually(() => text.includes('Mirror to it'), 120_000)
  const [, number = ''] = /AirPlay {2}198\.18\.(\d+)\.2/.exec(text) ?? []
  const [, pid = ''] = /--target (\d+)/.exec(text) ?? []
  const hierarchies = readFileSync('/proc/self/mounts', 'latin1')
    .split('\n')
    .map(line => line.split(' '))
    .filter(([, , type]) => type === 'cgroup2')
  const traces = [
    `/proc/${pid}`,
    ...childrenOf(child.pid).map(holder => `/proc/${holder}`),
    `/sys/class/net/rig${number}`,
    ...hierarchies.map(([, folder = '']) => join(folder, `receiverd-rig-${number}`)),
  ]
  // Compared by inode, because another machine may get the same number right away.
  return { child, traces: traces.map(path => ({ path, inode: inodeOf(path) })) }
}

function childrenOf(parent: number | undefined): string[] {
  const isChild = (pid: string) => {
    try {
      return new RegExp(`^PPid:\\s+${parent}$`, 'm').test(readFileSync(`/proc/${pid}/status`, 'latin1'))
    } catch {
      return false
    }
  }
  return readdirSync('/proc').filter(name => /^\d+$/.test(name) && isChild(name))
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino
}

for (const signal of ['SIGKILL', 'SIGINT', undefined] as const)
  t.test(signal ?? 'the end of its input', { skip: NO_RIG }, async t => {
    const { child, traces } = await boot(t)
    t.ok(traces.length >= 5, 'systemd, its parent, the holder of the disk, a cable, a cgroup')
    for (const { path, inode } of traces) t.type(inode, 'number', path)
    const exited = once(child, 'exit')
    if (signal) child.kill(signal)
    else child.stdin.end()
    await exited
    await eventually(() => traces.every(({ path, inode }) => inodeOf(path) !== inode), GONE_MS)
    t.pass('nothing is left')
  })
