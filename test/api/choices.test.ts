import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import t from 'tap'
import { eventually } from '../support/eventually.ts'
import { startTestService, type TestService } from '../support/service.ts'

interface AllChoices {
  readonly timezone: readonly string[]
  readonly locale?: readonly string[]
  readonly display: Readonly<Record<string, { readonly mode: readonly string[] }>>
  readonly network: unknown
}

const read = async (service: TestService) => (await (await service.fetch('/system/choices')).json()) as AllChoices

t.test('values that the device would accept', async t => {
  const service = await startTestService(t)
  const zones = 'usr/share/zoneinfo'
  const put = (name: string, text: string) => {
    mkdirSync(dirname(service.path(`${zones}/${name}`)), { recursive: true })
    writeFileSync(service.path(`${zones}/${name}`), text)
  }
  for (const name of ['America/Argentina/Salta', 'posix/Europe/Brussels', 'Zulu']) put(name, 'TZif2')
  for (const name of ['tzdata.zi', 'leapseconds', 'SECURITY', 'Europe/with space']) put(name, 'text')
  symlinkSync('Zulu', service.path(`${zones}/posixrules`))
  const { timezone, display, locale, network, ...rest } = await read(service)
  t.same(rest, {}, 'nothing for what a schema says')
  t.same(
    network,
    {
      eth0: { address: ['192.0.2.40/24'], gateway: ['192.0.2.1'], dns: ['192.0.2.1'] },
      wlan0: { address: [], gateway: [], dns: [] },
    },
    'given by DHCP',
  )
  for (const name of ['America/Argentina/Salta', 'Zulu', 'UTC', 'Europe/Brussels']) t.ok(timezone.includes(name), name)
  for (const name of ['America', 'America/Argentina', 'leapseconds', 'SECURITY', 'posixrules', 'Europe/with space'])
    t.notOk(timezone.includes(name), name)
  t.same([...timezone].sort(), timezone)
  t.notOk(timezone.some(name => /^posix|\./.test(name)))
  const { modes } = ((await service.system()).value.display as Record<string, { modes: string[] }>)['HDMI-A-1'] ?? {}
  t.same(display['HDMI-A-1'], { mode: ['preferred', ...(modes ?? [])] })

  const patch = async (patch: object) => t.equal((await service.patch(patch)).status, 200, JSON.stringify(patch))
  for (const zone of timezone) await patch({ timezone: zone })
  for (const name of locale ?? []) await patch({ locale: name })
  for (const mode of display['HDMI-A-1']?.mode ?? []) await patch({ display: { 'HDMI-A-1': { mode } } })
})

t.test('its ETag is that of its content', async t => {
  const service = await startTestService(t)
  const first = await service.fetch('/system/choices')
  const etag = first.headers.get('etag') ?? ''
  t.match(etag, /^"[\w-]{22}"$/)
  const again = () => service.fetch('/system/choices', { headers: { 'If-None-Match': etag } })
  t.match(await again(), { status: 304, headers: { get: Function } })
  await service.patch({ deviceName: 'Another' })
  t.equal((await again()).status, 304, 'not that of the configuration')
  t.equal(
    (await (await startTestService(t)).fetch('/system/choices')).headers.get('etag'),
    etag,
    'also after a restart',
  )
  rmSync(service.path('usr/share/zoneinfo/Etc'), { recursive: true })
  await eventually(async () => (await again()).status === 200)
  t.notMatch((await read(service)).timezone.join(), 'Etc/')
})

t.test('a setting that the device lacks has none', async t => {
  const service = await startTestService(t)
  rmSync(service.path('sys/class/drm'), { recursive: true })
  rmSync(service.path('usr/share/zoneinfo'), { recursive: true })
  t.same((await read(service)).display, {}, 'its connectors are gone')
  t.ok((await read(service)).timezone.includes('Europe/Brussels'), 'the zones that Node has')
})
