import * as Type from 'typebox/type'
import { nearestName, readStartup, setGuarded, setName, setResolution, whyNotName } from '../format/uxplayrc.ts'
import type { System } from '../os/system.ts'
import { STARTUP, UXPLAYRC, UxPlay } from '../os/uxplay.ts'
import { currentValue, refuse, type Setting, whyReadOnly } from '../setting.ts'
import { IDENTITY } from './identity.ts'

/** The name that UxPlay uses if no option sets one. */
const DEFAULT_NAME = 'UxPlay'
/** A smaller picture would not be legible. */
const MIN_WIDTH = 320
const MIN_HEIGHT = 240

const schema = Type.Object(
  {
    enabled: Type.Boolean({ description: 'Whether the AirPlay receiver runs.' }),
    name: Type.String({
      description: "Name that phones and computers see, at most 50 bytes in UTF-8. Empty: the device's name.",
      'x-empty-means': 'deviceName',
      // A name that was set elsewhere is read with the host name appended.
      maxLength: 128,
      pattern: '^\\P{Cc}*$',
      ...IDENTITY,
    }),
    access: Type.Enum(['open', 'pin'], {
      description:
        'With pin, clients are asked for a code that the screen shows. It prevents mistakes but is no protection: a client ' +
        'can skip it. A fixed code or password set elsewhere is kept.',
    }),
    maxResolution: Type.String({
      description:
        `Largest picture that clients may send, such as 1920x1080, at least ${MIN_WIDTH}x${MIN_HEIGHT}. Empty: ` +
        "UxPlay's default.",
      maxLength: 9,
      pattern: '^([1-9]\\d{0,3}x[1-9]\\d{0,3})?$',
    }),
    restartPending: Type.Boolean({
      description:
        'Whether changed options are waiting until no device is connected, because they need a restart of UxPlay.',
      readOnly: true,
    }),
  },
  { description: 'Screen mirroring by AirPlay.', additionalProperties: false },
)
type Value = Type.Static<typeof schema>

/** The settings from which AirPlay's name is derived. */
interface Names {
  readonly hostname: Setting<Type.TString>
  readonly deviceName: Setting<Type.TString>
}

/** AirPlay through UxPlay 1.64 or later: its startup file, and whether its unit is enabled. */
export function airplay(system: System, { hostname, deviceName }: Names): Setting<typeof schema> {
  const uxplay = new UxPlay(system)
  const { unit } = uxplay

  const valueFrom = async (text: string): Promise<Value> => {
    const { name = DEFAULT_NAME, isDeviceName, appendsHostName, isGuarded, resolution = '' } = readStartup(text)
    return {
      enabled: await unit.isEnabled(),
      name: isDeviceName ? '' : appendsHostName ? `${name}@${await shortHostName()}` : name,
      access: isGuarded ? 'pin' : 'open',
      maxResolution: resolution,
      restartPending: await uxplay.isRcOutdated(),
    }
  }
  /** append_hostname() in uxplay.cpp cuts the host name at `.local`. */
  const shortHostName = async () => (await currentValue(hostname)).replace(/\.local.*/, '')

  const withDeviceName = async (text: string) => setName(text, nearestName(await currentValue(deviceName)), true)

  return {
    name: 'airplay',
    schema,
    get files() {
      return [UXPLAYRC, ...unit.files]
    },
    get links() {
      return unit.links
    },
    mayHave: path => unit.mayHave(path),
    sources: [...unit.sources, STARTUP],
    // `moderation` writes to the same file.
    dependsOn: [hostname.name, 'moderation'],
    embeds: ({ name }) => (name === '' ? [deviceName.name] : []),
    async isEmbeddedStale() {
      const text = (await system.readForEdit(UXPLAYRC)) ?? ''
      return (await withDeviceName(text)) !== text
    },
    unavailable: async () => ((await unit.isInstalled()) ? undefined : 'UxPlay is not installed as uxplay.service'),
    read: async () => valueFrom((await system.readLossless(UXPLAYRC)) ?? ''),
    fallback: () => valueFrom(''),
    async check(next, previous) {
      return [
        ...whyReadOnly(['restartPending'], next, previous),
        ...refuse('/enabled', await unit.whyNot(next.enabled)),
        ...refuse('/name', next.name === '' || next.name === previous.name ? undefined : whyNotName(next.name)),
        ...refuse('/maxResolution', whyNotResolution(next.maxResolution, previous.maxResolution)),
      ]
    },
    async write(next, previous) {
      const text = (await system.readForEdit(UXPLAYRC)) ?? ''
      // The host name may have just been changed, too.
      const isDerived = next.name === previous?.name && readStartup(text).appendsHostName
      const present = await valueFrom(text)
      let edited = text
      if (next.access !== present.access) edited = setGuarded(edited, next.access === 'pin')
      if (next.maxResolution !== present.maxResolution) edited = setResolution(edited, next.maxResolution)
      if (next.name === '') edited = await withDeviceName(edited)
      else if (next.name !== present.name && !isDerived) edited = setName(edited, next.name, false)
      const isRewritten = edited !== text && (await system.writeAtomic(UXPLAYRC, edited))
      return (await unit.setEnabled(next.enabled)) || isRewritten
    },
    async activate({ enabled }, previous, isRewritten) {
      if (enabled !== previous.enabled) await unit.activate(enabled, previous.enabled)
      else if (isRewritten) await uxplay.update()
    },
  }
}

function whyNotResolution(next: string, previous: string): string | undefined {
  const [width, height] = next.split('x').map(Number)
  if (next === previous || width === undefined || height === undefined) return undefined
  return width < MIN_WIDTH || height < MIN_HEIGHT ? `must be at least ${MIN_WIDTH}x${MIN_HEIGHT}` : undefined
}
