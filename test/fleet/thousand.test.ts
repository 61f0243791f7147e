/**
 * A site of many devices from one day to the next: listed, changed in waves while one device in ten dies, its keys replaced,
 * saved, and watched by Prometheus all the time; shown on a broker, and changed by Ansible. `make fleet-test N=1000` has as many as that.
 */
import { mkdirSync, readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { DEADLINE_MS, eventually } from '../support/eventually.ts'
import { Mosquitto } from '../support/mosquitto.ts'
import { needs } from '../support/needs.ts'
import { startPrometheus } from '../support/prometheus.ts'
import { Bridge } from './bridge.ts'
import { Controller } from './controller.ts'
import { configurationOf } from './prometheus.ts'
import { type Asked, ISSUER, Site, type SiteDevice, zoneOf } from './site.ts'
import { certificateOf, type Outcome } from './support.ts'

const N = Number(process.env.N || 50)
/** As seldom as Prometheus does it by default, for a thousand. A device on a busy machine has as long to answer. */
const SCRAPE_S = Math.max(5, Math.ceil(N / 16))
/** For work that grows with the number of devices. */
const LONG_MS = DEADLINE_MS + 2 * SCRAPE_S * 1000 + 100 * N
const GLOBAL = `global: { scrape_interval: ${SCRAPE_S}s, scrape_timeout: ${SCRAPE_S}s, evaluation_interval: 15s }\n`
const WAVES = ['--waves', '2,10,rest']
const FIRST_TWO_WAVES = 12
/** Hosts that die: one has its first device in the second wave. */
const IN_SECOND_WAVE = 5
const ANOTHER = 8
/** The zone at the start. */
const ZONE = 'Europe/Brussels'
const skip = needs('nginx', 'prometheus', 'promtool', 'mosquitto', 'mosquitto_sub', 'ansible-playbook')
const PASSWORD = 'correct-horse-battery-staple'

type Prometheus = Awaited<ReturnType<typeof startPrometheus>>

/** Changes, without requests that only validate. */
function changesIn(asked: readonly Asked[]): readonly Asked[] {
  return asked.filter(({ method, uri }) => method === 'PATCH' && !uri.includes('validateOnly'))
}

async function startWatching(t: Test, site: Site): Promise<Prometheus> {
  const { owner } = site
  const asked = ['--issuer', ISSUER, '--issuer-key', 'issuer.pem', '--role', 'admin:r', '--expires-in', '12h']
  for (const args of [
    ['token', ...asked, '--output', 'prometheus.token'],
    ['targets', '--output', 'receivers.json'],
  ])
    t.match(await owner.run(args), { status: 0, stderr: '' })
  return startPrometheus(t, configurationOf(owner, GLOBAL))
}

/** Waits until Prometheus sees so many devices up, and the others down. */
function untilUp({ ask }: Prometheus, up: number): Promise<unknown> {
  const count = async (value: number) => Number((await ask(`count(up == ${value})`))[0]?.value[1] ?? 0)
  return eventually(async () => (await count(1).catch(() => -1)) === up && (await count(0)) === N - up, LONG_MS)
}

/** Waits until each device was scraped after this. */
async function untilScraped({ ask }: Prometheus): Promise<void> {
  const now = Date.now() / 1000
  await eventually(async () => Number((await ask(`count(timestamp(up) > ${now})`))[0]?.value[1]) === N, LONG_MS)
}

function named(
  devices: readonly SiteDevice[],
  of: Readonly<Record<string, Outcome>>,
  state: string,
): readonly string[] {
  return devices.filter(({ name }) => of[name]?.state === state).map(({ name }) => name)
}

t.setTimeout(LONG_MS * 20)

t.test(`${N} devices`, { skip, timeout: 0 }, async t => {
  const owner = new Controller(t, 8 * LONG_MS)
  const site = await Site.start(t, owner, N)
  const { devices, hosts } = site
  const names = devices.map(({ name }) => name)
  site.want({ timezone: ZONE })
  const prometheus = await startWatching(t, site)
  await untilUp(prometheus, N)

  await t.test('list and diff', async t => {
    const listing = await site.fleet('list', ['list'])
    t.equal(listing.status, 0, listing.stderr)
    t.same(named(devices, listing.of, 'ok'), names)
    const same = await site.fleet('diff', ['diff'])
    t.equal(same.status, 0, same.stderr)
    t.same(named(devices, same.of, 'unchanged'), names)
  })

  await t.test('one in ten dies before its wave: there is no wave after that, until it is back', async t => {
    site.want({ timezone: 'Europe/London' })
    const dead = hosts[IN_SECOND_WAVE]
    const from = site.mark()
    // Once all is planned, a whole wave before its own.
    const isPlanned = () => {
      const planned = site
        .asked(from)
        .filter(({ method, uri, status }) => method === 'PATCH' && uri.includes('validateOnly') && status === 200)
      return new Set(planned.map(({ host }) => host)).size === N
    }
    const kill = eventually(isPlanned, LONG_MS).then(() => dead?.kill())
    const stopped = await site.fleet('apply, stopped', ['apply', '--yes', '--confirm', ...WAVES])
    await kill
    t.equal(stopped.status, 1)
    t.match(stopped.stderr, /Wave 1 of 3, 2 devices: good\n.*Wave 2 of 3, 10 devices: 1 failed\nStopped after/s)
    t.same(named(devices, stopped.of, 'failed'), [names[IN_SECOND_WAVE]])
    const inWaves = devices.slice(0, FIRST_TWO_WAVES)
    const rest = devices.slice(FIRST_TWO_WAVES)
    t.same(
      named(devices, stopped.of, 'not begun'),
      rest.map(({ name }) => name),
    )
    const addresses = new Set(inWaves.map(({ host }) => host))
    t.same(
      changesIn(site.asked(from)).filter(({ host }) => !addresses.has(host)),
      [],
      'changes outside the waves',
    )
    const zones = devices.map(device => (stopped.of[device.name]?.state === 'changed' ? 'Europe/London' : ZONE))
    t.same(devices.map(zoneOf), zones, 'only what was said to be changed was changed')
    await untilUp(prometheus, N - (dead?.devices.length ?? 0))

    await dead?.start()
    const again = site.mark()
    const resumed = await site.fleet('apply, resumed', ['apply', '--yes', '--confirm', ...WAVES])
    t.equal(resumed.status, 0, resumed.stderr)
    t.same(named(devices, resumed.of, 'unchanged'), named(devices, stopped.of, 'changed'))
    t.equal(changesIn(site.asked(again)).length, N - FIRST_TWO_WAVES + 1, 'no device was changed twice')
    t.ok(devices.every(device => zoneOf(device) === 'Europe/London'))
  })

  await t.test('one in ten dies in the middle of a wave, and comes back', async t => {
    site.want({ timezone: 'Asia/Tokyo' })
    const dying = hosts[ANOTHER]
    const from = site.mark()
    const middle = FIRST_TWO_WAVES + (N - FIRST_TWO_WAVES) / 4
    const kill = eventually(() => changesIn(site.asked(from)).length >= middle, LONG_MS).then(() => dying?.kill())
    // A device that was being changed is asked until its trial is over, which is a minute.
    const back = kill.then(async () => {
      const errors = site.mark()
      await eventually(() => site.asked(errors).some(({ status }) => status === 503), LONG_MS)
      await dying?.start()
    })
    const applied = await site.fleet('apply, one in ten dies', ['apply', '--yes', '--confirm', ...WAVES])
    await back
    const changed = named(devices, applied.of, 'changed')
    const failed = named(devices, applied.of, 'failed')
    t.same([...changed, ...failed].sort(), names)
    t.equal(applied.status, failed.length === 0 ? 0 : 1)
    const dead = new Set(dying?.devices.map(({ name }) => name))
    t.same(
      failed.filter(name => !dead.has(name)),
      [],
      'only dead devices fail',
    )
    t.comment(`${failed.length} of ${dead.size} dead devices failed`)
    const lost = devices.filter(device => changed.includes(device.name) && zoneOf(device) !== 'Asia/Tokyo')
    t.same(lost, [], 'acknowledged changes are there')
    const wrong = devices.filter(device => failed.includes(device.name) && zoneOf(device) !== 'Europe/London')
    t.same(
      wrong.map(({ name }) => `${name}: ${applied.of[name]?.reason}`),
      [],
      'changes without an acknowledgement are not',
    )
    const resumed = await site.fleet('apply, finished', ['apply', '--yes', '--confirm', ...WAVES])
    t.equal(resumed.status, 0, resumed.stderr)
    t.same(named(devices, resumed.of, 'changed'), failed)
    t.ok(devices.every(device => zoneOf(device) === 'Asia/Tokyo'))
    await untilUp(prometheus, N)
  })

  await t.test('backup', async t => {
    mkdirSync(owner.path('saved'))
    const saved = await site.fleet('backup', ['backup', 'saved'])
    t.equal(saved.status, 0, saved.stderr)
    t.same(
      readdirSync(owner.path('saved')).sort(),
      names.map(name => `${name}.json`),
    )
    const wrong = names.filter(name => !owner.read(`saved/${name}.json`).includes('"timezone": "Asia/Tokyo"'))
    t.same(wrong, [], 'files without the settings')
  })

  await t.test('new keys, while Prometheus reads on', async t => {
    const before = site.keys()
    await untilScraped(prometheus)
    const from = site.mark()
    const began = Date.now()
    const rotated = await site.fleet('rotate-keys', ['rotate-keys', '--yes'])
    t.equal(rotated.status, 0, rotated.stderr)
    t.same(named(devices, rotated.of, 'changed'), names)
    await untilScraped(prometheus)
    t.same(
      site.answered(from).filter(({ status }) => status === 401),
      [],
      'nobody was refused',
    )
    const windowS = Math.ceil((Date.now() - began) / 1000) + SCRAPE_S
    t.same(await prometheus.ask(`min_over_time(up[${windowS}s]) == 0`), [], 'devices that Prometheus missed')
    const after = site.keys()
    const statuses = new Set<string>()
    for (const device of devices) {
      const status = (keys: ReadonlyMap<string, string>) => site.statusWith(device, keys.get(device.name) ?? '')
      statuses.add(`${await status(before)} ${await status(after)}`)
    }
    t.same([...statuses], ['401 200'], 'the old key, and the new one')
  })

  await t.test('a broker, on which one in ten dies and comes back', async t => {
    const tls = certificateOf('mqtt')
    const broker = await Mosquitto.start(t, tls, PASSWORD)
    owner.write('mqtt-ca.pem', tls.cert)
    site.want(
      { timezone: 'Asia/Tokyo' },
      {
        bridge: {
          broker: `mqtts://127.0.0.1:${broker.port}`,
          ca: 'mqtt-ca.pem',
          user: broker.user,
          password: PASSWORD,
          issuer: { name: ISSUER, key: 'issuer.pem' },
        },
      },
    )
    const watcher = broker.watch(t)
    const bridge = new Bridge(t, owner)
    const online = () => names.filter(name => watcher.text(`receiverd/${name}/availability`) === 'online')
    const shown = async (count: number) => {
      await eventually(() => online().length === count, LONG_MS)
      return online().map(device => ({ device, state: 'done' }))
    }
    await site.job('bridge: all are shown', async measured => {
      measured(bridge.process)
      return shown(N)
    })
    const dying = hosts[IN_SECOND_WAVE]
    await dying?.kill()
    const left = await shown(N - (dying?.devices.length ?? 0))
    const dead = new Set(dying?.devices.map(({ name }) => name))
    t.same(
      left.map(({ device }) => device),
      names.filter(name => !dead.has(name)),
    )
    await dying?.start()
    await site.job('bridge: one in ten is back', async measured => {
      measured(bridge.process)
      return shown(N)
    })
    t.ok(names.every(name => watcher.json(`receiverd/${name}/settings`)?.timezone === 'Asia/Tokyo'))
    t.equal(await bridge.end('SIGTERM'), 0)
  })

  await t.test('Ansible', async t => {
    site.want({ timezone: 'UTC' })
    const states = { ok: 'unchanged', changed: 'changed', fatal: 'failed' } as Readonly<Record<string, string>>
    const play = async (name: string, ...args: readonly string[]) => {
      const outcomes = await site.job(name, async measured => {
        const { of } = await owner.play(args, {}, measured)
        return Object.entries(of).map(([device, { state, msg }]) => ({
          device,
          state: states[state] ?? state,
          ...(msg !== undefined && { reason: msg }),
        }))
      })
      return named(devices, Object.fromEntries(outcomes.map(outcome => [outcome.device, outcome])), 'changed')
    }
    const before = site.mark()
    t.same(await play('ansible, in check mode', '--check'), names)
    t.same(changesIn(site.asked(before)), [], 'check mode changes nothing')
    t.same(await play('ansible'), names)
    t.ok(devices.every(device => zoneOf(device) === 'UTC'))
    t.same(await play('ansible, again'), [])
  })

  await t.test('in the end', async t => {
    const same = await site.fleet('diff, at the end', ['diff'])
    t.equal(same.status, 0, same.stderr)
    t.same(named(devices, same.of, 'unchanged'), names)
    await untilUp(prometheus, N)
  })
  for (const line of site.report(prometheus.pid).split('\n')) t.comment(line)
})
