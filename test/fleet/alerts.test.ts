/** The alert rules, by promtool: each fires when it should, not before, and not for a device that is well. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY } from '../../build/bundle-file.ts'
import { temporaryFolder } from '../support/folder.ts'
import { needs } from '../support/needs.ts'
import { readText } from '../support/readme.ts'

const RULES = 'src/fleet/prometheus/receiverd.rules.yml'
const skip = needs('promtool')

/** Series by name and labels: a value for each minute, as promtool expands them. */
type Series = Readonly<Record<string, string>>

interface Case {
  readonly alert: string
  /** Both of a device; the labels job and instance are added. */
  readonly ill: Series
  readonly well: Series
  /** The minute from which the series are ill. */
  readonly from?: number
  /** Minutes from there until it fires. */
  readonly forMinutes: number
  /** It is about several devices, or none: the labels are those given. */
  readonly isWhole?: true
}

const DAY_S = 86_400
const DEVICE = 'job="receivers",instance="lobby:443",device="lobby"'
const LENGTH = 120

/** The same value in every minute. */
const always = (value: number) => `${value}x${LENGTH}`

const configurations = (digests: readonly string[], groups: readonly string[]): Series =>
  Object.fromEntries(
    digests.flatMap((digest, at) => [
      [`receiverd_configuration_info{job="receivers",instance="${at}",digest="${digest}"}`, always(1)],
      [`receiverd_device_info{job="receivers",instance="${at}",name="${at}",groups="${groups[at]}"}`, always(1)],
    ]),
  )

const CASES: readonly Case[] = [
  {
    alert: 'ReceiversMissing',
    ill: { 'up{job="others",instance="x"}': always(1) },
    well: { 'up{job="receivers",instance="x"}': always(0) },
    forMinutes: 10,
    isWhole: true,
  },
  {
    alert: 'ReceiverDown',
    ill: { up: `1x5 0x${LENGTH}` },
    well: { up: `1x5 0x8 1x${LENGTH}` },
    from: 6,
    forMinutes: 10,
  },
  {
    alert: 'ReceiverRestarting',
    ill: { receiverd_process_start_time_seconds: `100 200 300 400 500x${LENGTH}` },
    well: { receiverd_process_start_time_seconds: `100 200 300 400x${LENGTH}` },
    from: 4,
    forMinutes: 0,
  },
  {
    alert: 'ReceiverClockNotSet',
    ill: { receiverd_device_clock_set: always(0) },
    well: { receiverd_device_clock_set: `0x10 1x${LENGTH}` },
    forMinutes: 15,
  },
  {
    alert: 'ReceiverStorageReadOnly',
    ill: { receiverd_device_storage_readonly: always(1) },
    well: { receiverd_device_storage_readonly: always(0) },
    forMinutes: 5,
  },
  {
    alert: 'ReceiverStorageTemporary',
    ill: { receiverd_device_storage_temporary: always(1) },
    well: { receiverd_device_storage_temporary: always(0) },
    forMinutes: 5,
  },
  {
    alert: 'ReceiverStorageFull',
    ill: { receiverd_device_storage_available_bytes: always(49), receiverd_device_storage_size_bytes: always(1000) },
    well: { receiverd_device_storage_available_bytes: always(51), receiverd_device_storage_size_bytes: always(1000) },
    forMinutes: 30,
  },
  {
    alert: 'ReceiverKeyNotStored',
    ill: { receiverd_api_key_stored: always(0) },
    well: { receiverd_api_key_stored: always(1) },
    forMinutes: 5,
  },
  {
    alert: 'ReceiverAirplayNotReady',
    ill: { receiverd_airplay_ready: always(0) },
    well: { receiverd_airplay_ready: always(1) },
    forMinutes: 10,
  },
  {
    alert: 'ReceiverCertificateExpires',
    // The time begins at 0.
    ill: { receiverd_certificate_expiry_timestamp_seconds: always(14 * DAY_S - 1) },
    well: { receiverd_certificate_expiry_timestamp_seconds: always(15 * DAY_S) },
    forMinutes: 60,
  },
  {
    alert: 'ReceiverUpdateRolledBack',
    ill: { 'receiverd_update_last_outcome{outcome="rolled back"}': always(1) },
    well: { 'receiverd_update_last_outcome{outcome="installed"}': always(1) },
    forMinutes: 0,
  },
  {
    alert: 'ReceiverUpdateFailed',
    ill: { 'receiverd_update_last_outcome{outcome="failed"}': always(1) },
    well: { 'receiverd_update_last_outcome{outcome="rolled back"}': always(1) },
    forMinutes: 0,
  },
  {
    alert: 'ReceiverSessionsWaiting',
    // A device is denied, the next waits.
    ill: {
      'receiverd_sessions{protocol="airplay",state="pending"}': '1x1 stale',
      'receiverd_sessions{protocol="other",state="pending"}': `_ 1x${LENGTH}`,
    },
    well: { 'receiverd_sessions{protocol="airplay",state="active"}': always(2) },
    forMinutes: 1,
  },
  {
    alert: 'ReceiverHot',
    ill: { receiverd_device_temperature_celsius: always(79) },
    well: { receiverd_device_temperature_celsius: `79x9 78x${LENGTH}` },
    forMinutes: 10,
  },
  {
    alert: 'ReceiverConfigurationsDiffer',
    ill: configurations(['a', 'a', 'b'], ['lobby', 'lobby', 'lobby']),
    // Different groups may differ, and devices of none.
    well: configurations(['a', 'a', 'b', 'c', 'd'], ['lobby', 'lobby', 'hall', '', '']),
    forMinutes: 60,
    isWhole: true,
  },
]

/** A test of promtool's. @param fires The minute at which the alert fires first; undefined if it never does. */
function testOf({ alert, isWhole }: Case, series: Series, fires: number | undefined): object {
  const labelled = (name: string) =>
    isWhole ? name : name.includes('{') ? name.replace('{', `{${DEVICE},`) : `${name}{${DEVICE}}`
  const minutes = Array.from({ length: (fires ?? LENGTH) + 1 }, (_, minute) => minute)
  return {
    name: `${alert} ${fires ?? 'never'}`,
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: labelled(name), values })),
    promql_expr_test: minutes.map(minute => ({
      expr: `count(ALERTS{alertname="${alert}",alertstate="firing"})`,
      eval_time: `${minute}m`,
      exp_samples: minute === fires ? [{ labels: '{}', value: 1 }] : [],
    })),
  }
}

function promtool(file: string, tests: readonly object[]) {
  const whole = { rule_files: [join(REPOSITORY, RULES)], evaluation_interval: '1m', tests }
  writeFileSync(file, JSON.stringify(whole))
  return spawnSync('promtool', ['test', 'rules', file], { encoding: 'utf8' })
}

t.test('promtool finds nothing to warn of', { skip }, async t => {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', '--lint-fatal', RULES], {
    cwd: REPOSITORY,
    encoding: 'utf8',
  })
  t.match({ status, stderr }, { status: 0, stderr: '' }, stdout)
})

t.test('each rule has a test', async t => {
  const alerts = Array.from(readText(RULES).matchAll(/^ +- alert: (\w+)$/gm), ([, name]) => name)
  t.same(
    alerts,
    CASES.map(({ alert }) => alert),
  )
})

for (const each of CASES)
  t.test(each.alert, { skip }, async t => {
    const { ill, well, from = 0, forMinutes } = each
    const file = join(temporaryFolder(t), 'test.yml')
    const fires = from + forMinutes
    const { status, stdout, stderr } = promtool(file, [testOf(each, ill, fires), testOf(each, well, undefined)])
    t.equal(status, 0, `${stdout}${stderr}`)
    t.not(promtool(file, [testOf(each, ill, fires + 1)]).status, 0, 'not a minute later')
  })
