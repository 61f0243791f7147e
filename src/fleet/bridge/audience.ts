import { isIP } from 'node:net'
import type { FleetDevice } from '../fleet-file.ts'

/**
 * The audience (`aud`) of each device's token, by the names of the devices: `serial:S`, or `host:H` for the host name in its
 * settings, its name, and the name in its address. All of it comes from the owner's file: a device that claims to be another
 * one gets no token for that one. A name that two devices have counts for neither, so a device may be left without an audience.
 */
export function audiencesOf(devices: readonly FleetDevice[]): ReadonlyMap<string, readonly string[]> {
  const said = devices.map(device => [device.name, namesOf(device)] as const)
  const counts = new Map<string, number>()
  for (const [, names] of said) for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return new Map(
    said.map(([device, names]) => {
      const own = names.filter(name => counts.get(name) === 1)
      const serial = own.find(name => name.startsWith('serial:'))
      return [device, serial === undefined ? own : [serial]]
    }),
  )
}

function namesOf({ name, serial, endpoint, settings: { hostname } }: FleetDevice): readonly string[] {
  const host = endpoint && isIP(endpoint.host) === 0 ? endpoint.host.replace(/\..*/, '') : ''
  const hosts = [typeof hostname === 'string' ? hostname : '', name, host].filter(text => text !== '')
  return [...(serial === '' ? [] : [`serial:${serial}`]), ...new Set(hosts.map(text => `host:${text}`))]
}
