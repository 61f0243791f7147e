import * as Type from 'typebox/type'
import { nearestName, readStartup, setGuarded, setName, setResolution, whyNotName } from '../format/uxplayrc.ts'
import type { System } from '../os/system.ts'
import { Unit } from '../os/unit.ts'
import { currentValue, refuse, type Setting } from '../setting.ts'

/** The unit passes it to UxPlay: `Environment=UXPLAYRC=/etc/uxplayrc`. */
const FILE = '/etc/uxplayrc'
/** UxPlay's name without an option. */
const DEFAULT_NAME = 'UxPlay'
/** On a smaller picture nothing could be read. */
const MIN_WIDTH = 320
const MIN_HEIGHT = 240

const schema = Type.Object(
  {
    enabled: Type.Boolean({ description: 'Whether the AirPlay receiver runs.' }),
    name: Type.String({
      description: "Name that clients see, at most 50 bytes in UTF-8. Empty: the device's name.",
      // A name that was set elsewhere is read with the host name appended.
      maxLength: 128,
      pattern: '^\\P{Cc}*$',
    }),
    access: Type.Enum(['open', 'pin'], {
      description:
        'With pin, clients must enter a code shown on the screen. A fixed code or password set elsewhere is kept.',
    }),
    maxResolution: Type.String({
      description: `Largest picture that clients may send, WIDTHxHEIGHT from ${MIN_WIDTH}x${MIN_HEIGHT}. Empty: UxPlay's default.`,
      maxLength: 9,
      pattern: '^([1-9]\\d{0,3}x[1-9]\\d{0,3})?$',
    }),
  },
  { description: 'Screen mirroring by AirPlay.', additionalProperties: false },
)
type Value = Type.Static<typeof schema>

/** Settings that AirPlay's name is made from. */
interface Names {
  readonly hostname: Setting<Type.TString>
  readonly deviceName: Setting<Type.TString>
}

/** AirPlay by UxPlay, 1.64 and later: its startup file, and its unit enabled or disabled. */
export function airplay(system: System, { hostname, deviceName }: Names): Setting<typeof schema> {
  const unit = new Unit(system, 'uxplay.service')

  const valueFrom = async (text: string): Promise<Value> => {
    const { name = DEFAULT_NAME, isDeviceName, appendsHostName, isGuarded, resolution = '' } = readStartup(text)
    return {
      enabled: await unit.isEnabled(),
      name: isDeviceName ? '' : appendsHostName ? `${name}@${await shortHostName()}` : name,
      access: isGuarded ? 'pin' : 'open',
      maxResolution: resolution,
    }
  }
  /** append_hostname() in uxplay.cpp cuts the name at `.local`. */
  const shortHostName = async () => (await currentValue(hostname)).replace(/\.local.*/, '')

  return {
    name: 'airplay',
    schema,
    get files() {
      return [FILE, ...unit.files]
    },
    mayHave: path => unit.mayHave(path),
    sources: unit.sources,
    dependsOn: [hostname.name],
    embeds: ({ name }) => (name === '' ? [deviceName.name] : []),
    unavailable: async () => ((await unit.isInstalled()) ? undefined : 'UxPlay is not installed as uxplay.service'),
    read: async () => valueFrom((await system.readText(FILE)) ?? ''),
    fallback: () => valueFrom(''),
    async check(next, previous) {
      return [
        ...refuse('/enabled', await unit.whyNot(next.enabled)),
        ...refuse('/name', next.name === '' || next.name === previous.name ? undefined : whyNotName(next.name)),
        ...refuse('/maxResolution', whyNotResolution(next.maxResolution, previous.maxResolution)),
      ]
    },
    async write(next) {
      const text = (await system.readForEdit(FILE)) ?? ''
      const present = await valueFrom(text)
      let edited = text
      if (next.access !== present.access) edited = setGuarded(edited, next.access === 'pin')
      if (next.maxResolution !== present.maxResolution) edited = setResolution(edited, next.maxResolution)
      if (next.name === '') edited = setName(edited, nearestName(await currentValue(deviceName)), true)
      else if (next.name !== present.name) edited = setName(edited, next.name, false)
      const isRewritten = edited !== text && (await system.writeAtomic(FILE, edited))
      return (await unit.setEnabled(next.enabled)) || isRewritten
    },
    // A restart interrupts whoever is mirroring, so there is one only if UxPlay has something new to read.
    activate: ({ enabled }, previous, isRewritten) => unit.activate(enabled, previous.enabled, isRewritten),
  }
}

function whyNotResolution(next: string, previous: string): string | undefined {
  const [width, height] = next.split('x').map(Number)
  if (next === previous || width === undefined || height === undefined) return undefined
  return width < MIN_WIDTH || height < MIN_HEIGHT ? `must be at least ${MIN_WIDTH}x${MIN_HEIGHT}` : undefined
}
