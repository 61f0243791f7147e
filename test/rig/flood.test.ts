/** Clients that take connections from others: nginx in front has a place for each request of everybody else. */
import { execFile } from 'node:child_process'
import { once, setMaxListeners } from 'node:events'
import { Agent, request } from 'node:https'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { promisify } from 'node:util'
import type { Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { testInOwnNetwork } from '../support/own-network.ts'
import { NO_RIG } from './available.ts'
import { type Rig, startRig } from './rig.ts'

const SLOW = 1_000
const FLOOD_MS = 6_000
/** How many connections of the flood are opened at once. */
const AT_ONCE = 256

/** Eight more addresses for this end of the cable. */
async function moreAddresses(rig: Rig): Promise<readonly string[]> {
  const network = rig.address.replace(/\d+$/, '')
  const addresses = Array.from({ length: 8 }, (_, n) => `${network}${101 + n}`)
  const interfaceName = `rig${network.split('.')[2]}`
  for (const address of addresses)
    await promisify(execFile)('ip', ['address', 'add', `${address}/24`, 'dev', interfaceName])
  return addresses
}

/** Milliseconds for an answer on a connection of its own, from the rig's usual neighbour. @throws if it is not 200. */
async function ask(rig: Rig, path: string): Promise<number> {
  const began = performance.now()
  const agent = new Agent({ rejectUnauthorized: false, localAddress: rig.hostAddress })
  const options = { agent, host: rig.address, path, headers: { Authorization: `Bearer ${rig.key}` } }
  await new Promise<void>((resolve, reject) => {
    request(options, response => {
      response.resume().once('end', () => {
        if (response.statusCode === 200) resolve()
        else reject(new Error(`${path}: ${response.statusCode}`))
      })
    })
      .once('error', reject)
      .end()
  })
  return performance.now() - began
}

/** The page and the API, as a person uses them, some times. @returns the median in milliseconds. */
async function use(rig: Rig, times: number): Promise<number> {
  const taken: number[] = []
  for (let n = 0; n < times; n++) for (const path of ['/', '/api/v1/system']) taken.push(await ask(rig, path))
  return taken.sort((a, b) => a - b)[taken.length >> 1] ?? 0
}

/** A byte a second, as long as somebody listens. */
function drip(socket: Socket, bytes: Buffer): void {
  let sent = 0
  const timer = setInterval(() => socket.write(bytes.subarray(sent, ++sent)), 1_000)
  socket.once('close', () => clearInterval(timer))
}

const HEAD = Buffer.from('GET /api/v1/system HTTP/1.1\r\nHost: device\r\n')
/** The first bytes of a handshake (RFC 8446, section 5.1). */
const HELLO = Buffer.from('160301020001000200fc0303', 'hex')

async function slowClient(t: Test, rig: Rig, localAddress: string, kind: number): Promise<Socket> {
  const socket = connect({ host: rig.address, port: 443, localAddress })
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  await once(socket, 'connect').catch(() => undefined)
  if (kind === 1) drip(socket, HELLO)
  if (kind === 2) {
    const tls = connectTls({ socket, rejectUnauthorized: false })
    tls.on('error', () => undefined)
    tls.once('secureConnect', () => drip(tls, HEAD))
  }
  return socket
}

testInOwnNetwork('connections that others take', NO_RIG, async t => {
  const rig = await startRig(t, { isTls: true })
  await eventually(() => ask(rig, '/').catch(() => undefined))
  const addresses = await moreAddresses(rig)
  const address = (n: number) => addresses[n % addresses.length] as string
  const alone = await use(rig, 10)

  await t.test('a thousand slow ones of eight addresses', async t => {
    // A third each: nothing, half a handshake, half a request.
    const sockets = await Promise.all(Array.from({ length: SLOW }, (_, n) => slowClient(t, rig, address(n), n % 3)))
    // On a busy machine, they are cut off before the measurement ends.
    const open = sockets.filter(socket => !socket.destroyed).length
    const beside = await use(rig, 10)
    t.comment(`${beside.toFixed(0)} ms beside ${open} of them, ${alone.toFixed(0)} ms alone`)
    await Promise.all(
      sockets.map(async socket => socket.closed || new Promise(resolve => socket.once('close', resolve))),
    )
    t.pass('all of them are cut off')
  })

  await t.test('new ones as fast as they can be opened', async t => {
    const over = new AbortController()
    const { signal } = over
    setMaxListeners(AT_ONCE, signal)
    const sockets: Socket[] = []
    const flood = async (n: number) => {
      while (!signal.aborted) {
        const socket = connect({ host: rig.address, port: 443, localAddress: address(n++) })
        sockets.push(socket.on('error', () => undefined))
        await once(socket, 'connect', { signal }).catch(() => undefined)
      }
    }
    const began = performance.now()
    const floods = Array.from({ length: AT_ONCE }, (_, n) => flood(n))
    let [times, longest] = [0, 0]
    do {
      longest = Math.max(longest, await use(rig, 1))
      times++
    } while (performance.now() - began < FLOOD_MS)
    over.abort()
    await Promise.all(floods)
    for (const socket of sockets) socket.destroy()
    const perSecond = (sockets.length / (performance.now() - began)) * 1000
    t.comment(
      `${perSecond.toFixed(0)} a second, ${sockets.length} in all; the page and the API ${times} times, ${longest.toFixed(0)} ms at most`,
    )
    t.pass('both answered all the while')
  })

  const after = await use(rig, 10)
  t.comment(`${after.toFixed(0)} ms afterwards`)
  t.same(await rig.journal('--unit=receiverd', '--priority=warning'), [])
})
