import * as Type from 'typebox/type'
import { absentUnlessRefused } from '../errors.ts'
import { getValue } from '../format/key-value.ts'
import type { System } from '../os/system.ts'
import type { Setting } from '../setting.ts'
import { OS_RELEASE, readOsRelease } from './os-release.ts'

const MODEL = ['/proc/device-tree/model', '/sys/class/dmi/id/product_name']
const SERIAL = ['/proc/device-tree/serial-number', '/sys/class/dmi/id/product_serial']

const schema = Type.Object(
  {
    model: Type.String({ description: 'Model of the board.' }),
    serial: Type.String({ description: 'Serial number of the board.' }),
    architecture: Type.String({
      description: 'Processor architecture, such as arm64.',
    }),
  },
  {
    description: 'The board. Unknown values are empty.',
    additionalProperties: false,
  },
)

/** The names of ConditionArchitecture= in systemd.unit(5), which os-release(5) also uses, by `process.arch`. */
const ARCHITECTURES: Readonly<Record<string, string>> = {
  x64: 'x86-64',
  ia32: 'x86',
  ppc64: 'ppc64-le',
}

/** The board, from its device tree or, on a PC, from DMI; the architecture from os-release(5) if it is set there. Read-only. */
export function hardware(system: System): Setting<typeof schema> {
  return {
    name: 'hardware',
    schema,
    files: [],
    sources: [...MODEL, ...SERIAL, ...OS_RELEASE],
    async read() {
      return {
        model: await firstText(system, MODEL),
        serial: await firstText(system, SERIAL),
        architecture: await architecture(system),
      }
    },
    fallback: async () => ({ model: '', serial: '', architecture: '' }),
  }
}

/** Returns the text of the first of these files that has any. Most boards lack one of them. */
async function firstText(system: System, paths: readonly string[]): Promise<string> {
  for (const path of paths) {
    const text = await system.readText(path).catch(() => undefined)
    // Strings end in NUL in the device tree, and in a line feed in DMI.
    const value = text?.replace(/\p{Cc}+/gu, ' ').trim()
    if (value) return value
  }
  return ''
}

async function architecture(system: System): Promise<string> {
  const declared = getValue((await readOsRelease(system).catch(absentUnlessRefused)) ?? '', 'ARCHITECTURE')
  if (declared || !system.isRunning) return declared ?? ''
  return ARCHITECTURES[process.arch] ?? process.arch
}
