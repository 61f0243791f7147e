/** Networks that lose, delay, reorder and swallow packets, or carry only small ones: clients keep up all the same. */
import type { Test } from 'tap'
import { eventually } from '../support/eventually.ts'
import { needs } from '../support/needs.ts'
import { testInOwnNetwork } from '../support/own-network.ts'
import { openStream } from '../support/stream.ts'
import { NO_RIG } from './available.ts'
import { BadNetwork } from './bad-network.ts'
import { follow } from './clients.ts'
import { type Rig, startRig } from './rig.ts'

const skip = NO_RIG || needs('python3')
/** So that a stream that is gone is noticed within seconds, and not minutes. */
const FILES = {
  '/etc/default/receiverd': 'RECEIVERD_HEARTBEAT_S=1\n',
  '/etc/sysctl.d/60-test.conf': 'net.ipv4.tcp_retries2 = 5\n',
}
const CHANGES = 12

async function change(api: Pick<Rig, 'patch'>, deviceName: string): Promise<void> {
  const answer = await api.patch({ deviceName })
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`)
}

const streamsOf = async (rig: Rig) => ((await (await rig.fetch('/status')).json()) as { streams: number }).streams

testInOwnNetwork('a bad network', skip, async t => {
  const rig = await startRig(t, { files: FILES })
  const network = await BadNetwork.between(t, rig)
  /** Followers beyond it get all changes made beyond it. */
  const keepsUp = async (t: Test, name: string, changes = CHANGES) => {
    const followers = await Promise.all(Array.from({ length: 4 }, () => follow(network)))
    for (let n = 1; n <= changes; n++) await change(network, `${name} ${n}`)
    const { value } = await rig.system()
    t.equal(value.deviceName, `${name} ${changes}`)
    for (const { copy } of followers) await eventually(() => copy().deviceName === value.deviceName)
    for (const { copy, close } of followers) {
      t.same(copy(), value)
      await close()
    }
  }

  await t.test(
    'a stream that is swallowed without a word: the client resumes, and the device lets go of it',
    async t => {
      const { id } = await rig.system()
      const stream = await network.stream(`/events?initialEventId=${id}`)
      network.become({ swallows: true })
      await change(rig, 'meanwhile')
      await eventually(async () => (await streamsOf(rig)) === 0)
      await change(rig, 'later')
      network.become({})
      const resumed = await network.stream('/events', { 'Last-Event-ID': id })
      for (const deviceName of ['meanwhile', 'later']) t.match((await resumed.event())?.data, { deviceName })
      for (const each of [stream, resumed]) each.close()
    },
  )

  await t.test('another address under open streams', async t => {
    const { id } = await rig.system()
    const [stream, old] = [await network.stream(), network.address]
    await network.move()
    t.not(network.address, old)
    await change(network, 'moved')
    const resumed = await network.stream('/events', { 'Last-Event-ID': id })
    t.match((await resumed.event())?.data, { deviceName: 'moved' })
    resumed.close()
    await eventually(async () => (await streamsOf(rig)) === 0)
    t.pass('nobody is waited for at the old one')
    stream.close()
  })

  await t.test('one packet in ten is lost, and many overtake each other', async t => {
    network.become({ loss: 0.1, delayMs: 10, jitterMs: 40 })
    await keepsUp(t, 'lossy')
  })

  await t.test('two seconds each way', async t => {
    network.become({ delayMs: 2_000 })
    await keepsUp(t, 'slow', 1)
  })

  await t.test('IPv6 alone', async t => {
    network.become({})
    await network.dropAddress()
    await t.rejects(network.fetch('/system', { signal: AbortSignal.timeout(1_000) }))
    const headers = { Authorization: `Bearer ${rig.key}` }
    const stream = await openStream(8080, '/events', headers, network.address6)
    await change(rig, 'six')
    t.match((await stream.event())?.data, { deviceName: 'six' })
    stream.close()
    const answer = await fetch(`http://[${network.address6}]:8080/api/v1/system`, { headers })
    t.match(await answer.json(), { deviceName: 'six' })
  })

  await t.test('packets of 576 bytes', async t => {
    await network.move()
    await network.setMtu(576)
    await keepsUp(t, 'small')
    t.match(await (await fetch(network.url)).text(), /<\/html>/)
  })

  await t.test('all of that was nothing to warn of', async t => {
    t.same(await rig.journal('--unit=receiverd', '--priority=warning'), [])
  })
})
