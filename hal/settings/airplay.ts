import * as Type from 'typebox/type'
import { nearestName, readStartup, setGuarded, setName, setResolution, whyNotName } from '../format/uxplayrc.ts'
import type { System } from '../os/system.ts'
import { isUnitEnabled, isUnitInstalled, UNIT_FOLDERS } from '../os/unit.ts'
import type { Setting, Violation } from '../setting.ts'
import { deviceName } from './device-name.ts'
import { hostname } from './hostname.ts'

/** The unit names it to UxPlay: `Environment=UXPLAYRC=/etc/uxplayrc`. */
const FILE = '/etc/uxplayrc'
const UNIT = 'uxplay.service'
/** Targets that a unit for it is wanted by. */
const TARGETS = ['multi-user', 'graphical', 'default']
/** What UxPlay is called without a name. */
const DEFAULT_NAME = 'UxPlay'
/** A client with a smaller picture than this shows nothing that could be read. */
const MIN_WIDTH = 320
const MIN_HEIGHT = 240

const schema = Type.Object(
  {
    enabled: Type.Boolean({ description: 'Whether the receiver for AirPlay runs.' }),
    name: Type.String({
      description: "Name that clients see, at most 50 bytes in UTF-8. Empty: the device's name.",
      // One from elsewhere has the host name after it.
      pattern: '^\\P{Cc}{0,128}$',
    }),
    access: Type.Union([Type.Literal('open'), Type.Literal('pin')], {
      description: 'Whether a client must enter a code, shown on the screen; one that was fixed elsewhere is kept.',
    }),
    maxResolution: Type.String({
      description: `WIDTHxHEIGHT that clients may send, from ${MIN_WIDTH}x${MIN_HEIGHT}. Empty: that of the receiver.`,
      pattern: '^([1-9]\\d{0,3}x[1-9]\\d{0,3})?$',
    }),
  },
  { description: 'Screen mirroring by AirPlay.', additionalProperties: false },
)
type Value = Type.Static<typeof schema>

/** AirPlay by UxPlay, 1.64 and later: its startup file, and its unit enabled or disabled. */
export function airplay(system: System): Setting<typeof schema> {
  const device = deviceName(system)
  const host = hostname(system)

  const valueFrom = async (text: string): Promise<Value> => {
    const { name = DEFAULT_NAME, isDeviceName, appendsHostName, isGuarded, resolution = '' } = readStartup(text)
    return {
      enabled: await isUnitEnabled(system, UNIT),
      name: isDeviceName ? '' : appendsHostName ? `${name}@${await shortHostName()}` : name,
      access: isGuarded ? 'pin' : 'open',
      maxResolution: resolution,
    }
  }
  /** append_hostname() in uxplay.cpp cuts off what begins at `.local`. */
  const shortHostName = async () => (await host.read().catch(() => host.fallback())).replace(/\.local.*/, '')

  return {
    name: 'airplay',
    schema,
    files: [FILE, ...TARGETS.map(target => `${UNIT_FOLDERS[0]}/${target}.target.wants/${UNIT}`)],
    sources: [`${UNIT_FOLDERS[0]}/${UNIT}`],
    dependsOn: [host.name],
    embeds: ({ name }) => (name === '' ? [device.name] : []),
    async unavailable() {
      return (await isUnitInstalled(system, UNIT)) ? undefined : 'UxPlay is not installed as uxplay.service'
    },
    read: async () => valueFrom((await system.readText(FILE)) ?? ''),
    fallback: () => valueFrom(''),
    async check(next, previous) {
      const refusals: Violation[] = []
      const detail = next.name === '' || next.name === previous.name ? undefined : whyNotName(next.name)
      if (detail !== undefined) refusals.push({ pointer: '/name', detail })
      const [width, height] = next.maxResolution.split('x').map(Number)
      if (next.maxResolution !== previous.maxResolution && height !== undefined)
        if (Number(width) < MIN_WIDTH || height < MIN_HEIGHT)
          refusals.push({ pointer: '/maxResolution', detail: `must be at least ${MIN_WIDTH}x${MIN_HEIGHT}` })
      return refusals
    },
    async write(next) {
      const text = (await system.readForEdit(FILE)) ?? ''
      const present = await valueFrom(text)
      let edited = text
      if (next.access !== present.access) edited = setGuarded(edited, next.access === 'pin')
      if (next.maxResolution !== present.maxResolution) edited = setResolution(edited, next.maxResolution)
      if (next.name === '') {
        const shown = await device.read().catch(() => device.fallback())
        edited = setName(edited, nearestName(shown), true)
      } else if (next.name !== present.name) edited = setName(edited, next.name, false)
      const isRewritten = edited !== text && (await system.writeAtomic(FILE, edited))
      if (next.enabled !== present.enabled) await system.setUnitEnabled(UNIT, next.enabled)
      return isRewritten || next.enabled !== present.enabled
    },
    async activate({ enabled }, previous, isRewritten) {
      const isSwitched = enabled !== previous.enabled
      // A mirrored screen is cut off by a restart: only for what UxPlay has not read yet.
      if (isSwitched || isRewritten)
        await system.run(['systemctl', !isSwitched ? 'try-restart' : enabled ? 'restart' : 'stop', UNIT])
    },
  }
}
