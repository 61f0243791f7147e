import { hostAndPort } from '../http/address.ts'
import { UsageError } from '../usage-error.ts'
import type { FleetDevice } from './fleet-file.ts'
import { listed } from './report.ts'

/**
 * The devices as Prometheus reads them from a file (prometheus.io/docs/prometheus/latest/configuration, file_sd_config). The
 * label is `group`, because a target's label hides a metric's label of the same name, and metrics have `groups`.
 * @throws {UsageError} for a device without an address: an alert that it is down needs one.
 */
export function targetsOf(devices: readonly FleetDevice[]): string {
  const homeless = devices.filter(({ endpoint }) => !endpoint).map(({ name }) => name)
  if (homeless.length > 0)
    throw new UsageError(`targets: these have no address in the fleet file, and need one: ${listed(homeless)}`)
  const targets = devices.flatMap(({ name, groups, endpoint, proof }) => {
    if (!endpoint) return []
    const __scheme__ = proof.kind === 'none' ? 'http' : 'https'
    const labels = { device: name, ...(groups.length > 0 && { group: groups.join() }), __scheme__ }
    return [{ targets: [hostAndPort(endpoint.host, endpoint.port)], labels }]
  })
  return `${JSON.stringify(targets, null, 2)}\n`
}
