import * as Type from 'typebox/type'
import { getValue } from '../format/key-value.ts'
import type { System } from '../os/system.ts'
import type { Setting } from '../setting.ts'
import { OS_RELEASE, readOsRelease } from './os-release.ts'

const schema = Type.Object(
  {
    name: Type.String({ description: 'NAME of os-release(5).' }),
    version: Type.String({
      description: 'IMAGE_VERSION, or VERSION_ID if IMAGE_VERSION is not set.',
    }),
    build: Type.String({ description: 'BUILD_ID.' }),
  },
  {
    description: 'The system image. Unknown values are empty.',
    additionalProperties: false,
  },
)

/** The operating system, from os-release(5). Read-only. */
export function firmware(system: System): Setting<typeof schema> {
  return {
    name: 'firmware',
    schema,
    files: [],
    sources: OS_RELEASE,
    async read() {
      const text = (await readOsRelease(system)) ?? ''
      const value = (name: string) => getValue(text, name) ?? ''
      return {
        name: value('NAME'),
        version: value('IMAGE_VERSION') || value('VERSION_ID'),
        build: value('BUILD_ID'),
      }
    },
    fallback: async () => ({ name: '', version: '', build: '' }),
  }
}
