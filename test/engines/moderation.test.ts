/** UxPlay moderated: it does what the API says. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { MAX_SESSIONS } from '../../src/limits.ts'
import type { Session } from '../../src/sessions/session.ts'
import { NO_RIG } from '../rig/available.ts'
import { forgetPictures, lastPicture } from '../rig/frames.ts'
import { eventually } from '../support/eventually.ts'
import { startRoom } from './room.ts'

const ANN = 'AA:BB:CC:00:00:01'
const BOB = 'AA:BB:CC:00:00:02'

/** Many sessions of another program, until its stdin ends. */
const FLOOD = `process.stdin.on('end', process.exit).resume()
for (let n = 0; n < ${MAX_SESSIONS}; n++)
  require('node:http')
    .request({
      socketPath: '/run/receiverd/engines.sock',
      method: 'POST',
      path: '/sessions',
      agent: false,
      headers: { 'Content-Type': 'application/json' },
    })
    .end('{"protocol":"demo"}')`

t.test('a room', { skip: NO_RIG }, async t => {
  const room = await startRoom(t)
  const { rig } = room
  t.match(await rig.readFile('/etc/uxplayrc'), /^restrict$/m)

  await t.test('a device that asks is pending with its name, and is denied', async t => {
    const stream = await rig.stream('/sessions/events')
    const ann = room.device()
    t.equal(await ann.advance(), 'refused')
    const asked = await room.untilOnly('pending')
    t.match(asked, {
      protocol: 'airplay',
      name: "Ann's iPhone",
      model: 'iPhone15,2',
      deviceId: ANN,
      address: rig.hostAddress,
    })
    t.match((await stream.eventWhere(data => JSON.stringify(data).includes('pending'))).data, { sessions: [asked] })
    stream.close()
    const ended = room.untilEnded(ann)
    t.equal((await room.end(asked)).status, 204)
    t.match(await ended, /FIN|ECONNRESET/)
    t.same(await room.sessions(), [])
    await room.untilReady()
  })

  await t.test('a device that asks and leaves is not listed any more', async () => {
    await room.unlessCrashed(async () => {
      const ann = room.device()
      equal(await ann.advance(), 'refused')
      await room.untilOnly('pending')
      await ann.leave('close')
      await room.untilEmpty()
    })
  })

  await t.test('an admitted device comes back, mirrors, and is ended', async t => {
    await room.unlessCrashed(async () => {
      equal(await room.device().advance(), 'refused')
      const asked = await room.untilOnly('pending')
      const answer = await room.admit(asked)
      equal(answer.status, 200)
      const { id, state } = (await answer.json()) as Session
      deepEqual([id, state], [asked.id, 'admitted'])
      equal(await room.allowed(), `allow ${ANN}\n`)
      await room.untilReady()
      const back = await room.comesIn()
      const active = await room.untilOnly('active')
      equal(active.id, asked.id)
      equal((await room.admit(active)).status, 200, 'it is in already')

      const bob = room.device({ name: 'Bob', deviceId: BOB })
      equal(await bob.advance(), 'busy', 'one at a time')
      equal((await room.sessions()).length, 1)

      const ended = room.untilEnded(back)
      equal((await room.end(active)).status, 204)
      match(await ended, /FIN|ECONNRESET/)
      deepEqual(await room.sessions(), [])
    })
    await room.untilReady()
    t.equal(await room.allowed(), '')
    await room.mustAsk()
  })

  await t.test('a device that has left must ask again', async () => {
    const ann = await room.admitted()
    await ann.leave()
    await room.untilEmpty()
    await eventually(async () => (await room.allowed()) === '')
    await room.untilReady()
    await room.mustAsk()
  })

  const accepted = async () =>
    Number(await rig.shell('journalctl --unit uxplay --output cat | grep --count ^Accepted || true'))

  /** One device asks and leaves, and the next connects, which `journald` may make slow; then that one asks. */
  const takeTurns = (journald: (turns: () => Promise<void>) => Promise<void>) =>
    room.unlessCrashed(async () => {
      const before = await accepted()
      const hasty = room.device({ name: 'Hasty', deviceId: BOB })
      const ann = room.device()
      await journald(async () => {
        equal(await hasty.advance(), 'refused')
        await hasty.leave('close')
        equal(await ann.advance('pair'), 'pair')
      })
      await eventually(async () => (await accepted()) === before + 2)
      await room.untilEmpty()
      await sleep(1_000)
      deepEqual(await room.sessions(), [])
      equal(await ann.advance(), 'refused')
      equal((await room.untilOnly('pending')).deviceId, ANN)
      await ann.leave('close')
      await room.untilEmpty()
    })

  await t.test('a device that asks after another has left is not taken for it', () => takeTurns(turns => turns()))

  await t.test('nor where a busy journald dates its question late', () =>
    takeTurns(async turns => {
      const signal = (name: string) => rig.shell(`systemctl kill --signal=${name} systemd-journald`)
      await signal('STOP')
      try {
        await turns()
        // Longer than from the question to the next connection.
        await sleep(500)
      } finally {
        await signal('CONT')
      }
    }),
  )

  await t.test('nor is one that asks when the other was listed', () =>
    room.unlessCrashed(async () => {
      const listed = room.device({ name: 'Listed', deviceId: BOB })
      equal(await listed.advance(), 'refused')
      equal((await room.untilOnly('pending')).deviceId, BOB)
      const ann = room.device()
      await Promise.all([listed.leave('close'), ann.advance('pair')])
      await room.untilEmpty()
      equal(await ann.advance(), 'refused')
      equal((await room.untilOnly('pending')).deviceId, ANN)
      await ann.leave('close')
      await room.untilEmpty()
    }),
  )

  await t.test('the clock is set back between its connection and its question', () =>
    room.unlessCrashed(async () => {
      const ann = room.device()
      equal(await ann.advance('pair'), 'pair')
      // The clock is the host's. From then on, older files are dated in the future.
      await rig.shell('touch --date "+1 hour" /run/uxplay/device')
      equal(await ann.advance(), 'refused')
      equal((await room.untilOnly('pending')).deviceId, ANN)
      await ann.leave('close')
      await room.untilEmpty()
    }),
  )

  await t.test('AirPlay is switched off while a device mirrors', async t => {
    const ann = await room.admitted()
    t.equal((await rig.patch({ airplay: { enabled: false } })).status, 200)
    await room.untilEnded(ann)
    await room.untilEmpty()
    await sleep(500)
    t.equal(await rig.shell('systemctl is-active uxplay || true'), 'inactive\n')
    t.equal((await rig.patch({ airplay: { enabled: true } })).status, 200)
    await room.untilReady()
  })

  await t.test('a device that is admitted while UxPlay cannot start is not let in', async t => {
    const drop = '/run/systemd/system/uxplay.service.d/broken.conf'
    t.equal(await room.device().advance(), 'refused')
    const asked = await room.untilOnly('pending')
    await rig.shell(
      `mkdir -p $(dirname ${drop}); printf '[Service]\nExecStartPre=false\n' >${drop}; systemctl daemon-reload`,
    )
    const answer = await room.decide('POST', `/sessions/${asked.id}/admit`)
    const { title, detail } = (await answer.json()) as Record<'title' | 'detail', string>
    // On a machine that stalls, the decision may take more than 5 s; and UxPlay may have crashed, so that its device is gone.
    if (answer.status === 504) t.comment(detail)
    else if (answer.status === 404) t.comment(await room.crash())
    else {
      t.equal(answer.status, 500, detail)
      t.match(title, /^The mirroring/)
      t.equal(detail, 'The mirroring program refused: systemctl failed with status 1.')
    }
    await room.untilEmpty()
    await rig.shell(`rm ${drop}; systemctl daemon-reload; systemctl restart uxplay`)
    await room.untilReady()
    t.equal(await room.allowed(), '')
    await room.mustAsk()
  })

  await t.test('a change of AirPlay waits for the end of a session', async t => {
    await room.unlessCrashed(async () => {
      await rig.patch({ airplay: { maxResolution: '640x480' } })
      await room.untilOption('s 640x480')
      const ann = await room.letIn()
      const answer = await rig.patch({ airplay: { maxResolution: '1280x720' } })
      const { airplay } = (await answer.json()) as { airplay: Record<string, unknown> }
      deepEqual([airplay.maxResolution, airplay.restartPending], ['1280x720', true])
      match(await rig.readFile('/etc/uxplayrc'), /^s 1280x720$/m)
      await sleep(1_500)
      await room.untilOnly('active')
      const stream = await rig.stream()
      await ann.leave()
      await stream.eventWhere(data => JSON.stringify(data).includes('"restartPending":false'))
      stream.close()
    })
    await room.untilReady()
    t.match(await rig.readFile('/run/uxplay/options'), /^s 1280x720$/m)
    t.equal((await rig.patch({ airplay: { restartPending: true } })).status, 422)
  })

  await t.test('a device that UxPlay writes no file for is listed', async () => {
    await room.unlessCrashed(async () => {
      const odd = room.device({ hasRemote: false })
      equal(await odd.advance(), 'refused')
      equal(await rig.shell('ls /run/uxplay/device 2>/dev/null || true'), '')
      await room.untilOnly('pending')
      await odd.leave('close')
      await room.untilEmpty()
    })
  })

  await t.test('no device comes in by the options of the session before', async () => {
    const [before, idle] = await room.unlessCrashed(async () => {
      const ann = await room.letIn()
      const before = await rig.readFile('/run/uxplay/startup')
      const idle = room.idle()
      await ann.leave()
      return [before, idle] as const
    })
    await room.untilEmpty()
    await eventually(async () => (await rig.readFile('/run/uxplay/startup').catch(() => before)) !== before)
    await room.untilReady()
    idle.destroy()
    await room.mustAsk()
  })

  await t.test('nor does one because moderation began during a session', async () => {
    const idle = await room.unlessCrashed(async () => {
      await rig.patch({ moderation: { approval: 'none' } })
      await room.untilOption('restrict', false)
      const ann = await room.comesIn()
      await rig.patch({ moderation: { approval: 'moderator' } })
      const idle = room.idle()
      await ann.leave()
      return idle
    })
    await room.untilEmpty()
    await room.untilOption('restrict')
    idle.destroy()
    await room.mustAsk({ deviceId: BOB })
  })

  await t.test('a device that is in cannot pass for another', async () => {
    const boss = 'connection request from Boss (iPhone15,2) with deviceID = BB:BB:BB:BB:BB:BB'
    await room.unlessCrashed(async () => {
      const ann = await room.letIn({ timingProtocol: `x\n${boss}\nx` })
      ok((await rig.shell('journalctl --unit=uxplay --output=cat --lines=10')).includes(`\n${boss}\n`))
      const active = await room.untilOnly('active')
      deepEqual([active.name, active.deviceId], ["Ann's iPhone", ANN])
      await room.end(active)
      await room.untilEnded(ann)
    })
    await room.untilReady()
  })

  await t.test('a device that has left does not hide the next one', async () => {
    await room.unlessCrashed(async () => {
      const ann = room.device()
      equal(await ann.advance(), 'refused')
      await room.untilOnly('pending')
      const idle = room.idle()
      await ann.leave('close')
      equal(await room.device({ name: 'Bob', deviceId: BOB }).advance(), 'refused')
      await eventually(async () => (await room.untilOnly('pending')).deviceId === BOB)
      idle.destroy()
    })
    await room.end(await room.untilOnly('pending'))
    await room.untilReady()
  })

  await t.test('a device that was let in can be put out, whatever is in the startup file', async t => {
    const text = await rig.readFile('/etc/uxplayrc')
    for (const bytes of [70_000, 2_000_000]) {
      await room.device().advance()
      await room.admit(await room.untilOnly('pending'))
      await room.untilReady()
      await rig.replaceFile('/etc/uxplayrc', `${text}${'#'.repeat(bytes)}\n`)
      t.equal((await room.end(await room.untilOnly('admitted'))).status, 204)
      await rig.replaceFile('/etc/uxplayrc', text)
      await room.untilEmpty()
      await rig.run(['systemctl', 'restart', 'uxplay'])
      await room.untilReady()
    }
  })

  await t.test('the moderator hears of a device at once', async t => {
    const delays: number[] = []
    for (let n = 0; n < 10; n++) {
      const delay = await room.unlessCrashed(async () => {
        const ann = room.device()
        const stream = await rig.stream('/sessions/events')
        equal(await ann.advance(), 'refused')
        await stream.eventWhere(data => JSON.stringify(data).includes('pending'))
        const heard = Date.now()
        const [line] = await rig.journal('--unit=uxplay', '--lines=1', '--output-fields=MESSAGE')
        match(line?.MESSAGE ?? '', /^use "-allow/)
        await ann.leave('close')
        await stream.eventWhere(data => JSON.stringify(data).includes('[]'))
        stream.close()
        return heard - Number(line?.__REALTIME_TIMESTAMP) / 1000
      })
      delays.push(delay)
    }
    delays.sort((a, b) => a - b)
    t.comment(`${delays.map(delay => Math.round(delay)).join(', ')} ms after the line in the log`)
    // A look at UxPlay every 2 s would take a second.
    t.ok((delays[5] ?? Number.NaN) < 700)
  })

  await t.test(
    'a device that cannot be remotely controlled is heard of, too, although UxPlay makes no file for it',
    async t => {
      const took: number[] = []
      for (let n = 0; n < 4; n++) {
        const delay = await room.unlessCrashed(async () => {
          const ann = room.device({ hasRemote: false })
          equal(await ann.advance(), 'refused')
          const began = performance.now()
          await eventually(async () => (await room.sessions())[0]?.state === 'pending')
          const heard = performance.now()
          await ann.leave('close')
          await room.untilEmpty()
          return heard - began
        })
        took.push(delay)
      }
      // The journal tells after 250 ms, and UxPlay is looked at once in 2 s.
      took.sort((a, b) => a - b)
      t.ok((took[1] ?? Number.NaN) < 3_000, took.join(', '))
    },
  )

  await t.test('moderation is switched off and on', async t => {
    const approval = async (approval: string) => {
      const answer = await rig.patch({ moderation: { approval } })
      t.equal(answer.status, 200)
      return (await answer.json()) as { airplay: { restartPending: boolean }; moderation: { approval: string } }
    }
    t.equal(await room.device().advance(), 'refused')
    await room.untilOnly('pending')
    await approval('none')
    await room.untilEmpty()
    await room.untilReady()

    await approval('moderator')
    await room.untilOption('restrict')
    const connecting = room.device()
    t.equal(await connecting.advance('pair'), 'pair')
    t.match(await approval('none'), { airplay: { restartPending: true } }, 'a device that is connecting goes on')
    t.equal(await connecting.advance(), 'refused')
    await room.untilEnded(connecting)
    await room.untilOption('restrict', false)

    await room.unlessCrashed(async () => {
      await approval('none')
      await room.untilOption('restrict', false)
      const ann = await room.comesIn()
      const active = await room.untilOnly('active')
      const { name, deviceId, address } = active
      deepEqual([name, deviceId, address], ["Ann's iPhone", ANN, rig.hostAddress], 'listed, although nobody was asked')
      const { airplay, moderation } = await approval('moderator')
      deepEqual([airplay.restartPending, moderation.approval], [true, 'moderator'])
      deepEqual(await room.untilOnly('active'), active, 'it goes on')
      await ann.leave()
      await room.untilEmpty()
      await room.untilOption('restrict')
    })
    await room.mustAsk()

    // By hand, as an administrator does.
    const text = await rig.readFile('/etc/uxplayrc')
    await rig.replaceFile('/etc/uxplayrc', text.replace('restrict\n', ''))
    await eventually(async () => JSON.stringify((await rig.system()).value.moderation).includes('none'))
    await rig.run(['systemctl', 'restart', 'uxplay'])
    await room.untilReady()
    await room.unlessCrashed(async () => {
      const bob = await room.comesIn({ name: 'Bob', deviceId: BOB })
      equal((await room.untilOnly('active')).name, 'Bob')
      await bob.leave()
    })
    await room.untilEmpty()
  })

  const said = (what: string) => rig.shell(`journalctl --quiet --unit receiverd --grep '${what}' | wc -l`).then(Number)
  t.equal((await rig.patch({ moderation: { approval: 'none' } })).status, 200)
  await room.untilReady()

  await t.test('a device that mirrors is listed, however many sessions there are', async () => {
    await room.unlessCrashed(async () => {
      const others = rig.spawn(['node', '--eval', FLOOD])
      const ann = room.device()
      try {
        await eventually(async () => (await room.sessions()).length === MAX_SESSIONS)
        equal(await ann.advance(), 'mirroring')
        const found = await eventually(async () => (await room.sessions()).find(({ deviceId }) => deviceId === ANN))
        deepEqual([found.protocol, found.state], ['airplay', 'active'])
      } finally {
        others.stdin?.end()
      }
      await room.untilOnly('active')
      await ann.leave()
    })
    await room.untilEmpty()
  })

  await t.test('UxPlay is restarted because a device has reset its connections', async t => {
    const before = await said('no longer took connections')
    const ann = await room.mirror()
    await ann.leave('reset')
    await room.untilEmpty()
    // Unless it has crashed, or takes no connections any more, it has forgotten to close a port, and the next device would be
    // black.
    await eventually(async () => !rig.isListening(7000) || (await said('no longer took connections')) > before)
    await eventually(() => !rig.isListening(7000))
    await room.untilReady()
    await room.excuse()
    await room.unlessCrashed(async () => {
      await forgetPictures(rig)
      const bob = await room.comesIn({ name: 'Bob', deviceId: BOB })
      await eventually(() => lastPicture(rig))
      await bob.leave()
    })
    t.pass('the next one is seen')
    await room.untilEmpty()
  })

  await t.test('UxPlay is restarted because it does not answer', async t => {
    await rig.patch({ moderation: { approval: 'moderator' } })
    await room.untilReady()
    const before = await said('no longer took connections')
    const ann = room.device()
    t.equal(await ann.advance(), 'refused')
    await room.untilOnly('pending')
    await rig.run(['systemctl', 'kill', '--signal=STOP', 'uxplay'])
    // On a busy machine, some of its threads go on for a while, and would answer Bob.
    const states = 'grep --no-filename ^State: /proc/$(systemctl show --property MainPID --value uxplay)/task/*/status'
    await eventually(async () => /^(State:\tT .*\n)+$/.test(await rig.shell(states)))
    const bob = room.device({ name: 'Bob', deviceId: BOB, timeoutMs: 60_000 })
    // It waits in the queue of the socket.
    const asked = bob.advance().catch(() => undefined)
    t.match(await room.untilEnded(ann), /FIN|ECONNRESET/)
    await asked
    await eventually(async () => (await said('no longer took connections')) === before + 1)
    await room.untilEmpty()
    await room.untilReady()
    t.equal(await room.device().advance(), 'refused')
  })
})
