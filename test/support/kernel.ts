import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { TestService } from './service.ts'

/** A kernel's files, on a board with two sensors of which one is off. */
export const KERNEL = {
  'proc/uptime': '3725.87 14103.11\n',
  'proc/loadavg': '0.52 0.58 1.59 2/512 12345\n',
  'proc/meminfo': 'MemTotal:        3884376 kB\nMemFree:          123456 kB\nMemAvailable:    2884376 kB\n',
  'sys/devices/virtual/thermal/thermal_zone0/temp': '-274000\n',
  'sys/devices/virtual/thermal/thermal_zone1/temp': '48312\n',
  'sys/devices/virtual/thermal/thermal_zone2/temp': '51549\n',
  'sys/devices/virtual/thermal/thermal_zone3/type': 'gpu\n',
}

export function bootKernel(service: Pick<TestService, 'path'>): void {
  for (const [name, text] of Object.entries(KERNEL)) {
    mkdirSync(dirname(service.path(name)), { recursive: true })
    writeFileSync(service.path(name), text)
  }
  mkdirSync(service.path('sys/class/thermal'), { recursive: true })
  for (const n of [0, 1, 2, 3])
    symlinkSync(`../../devices/virtual/thermal/thermal_zone${n}`, service.path(`sys/class/thermal/thermal_zone${n}`))
}
