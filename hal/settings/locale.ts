import * as Type from 'typebox/type'
import { HalError } from '../errors.ts'
import { getValue, setValue } from '../format/key-value.ts'
import type { System } from '../os/system.ts'
import type { Setting } from '../setting.ts'

const SYSTEMD = '/etc/locale.conf'
const DEBIAN = '/etc/default/locale'
const NAME = 'LANG'

const schema = Type.String({
  description: 'Locale by locale(7): language[_TERRITORY][.codeset][@modifier], such as en_GB.UTF-8, or C.UTF-8.',
  maxLength: 64,
  pattern: '^(C|POSIX|[a-z]{2,3}(_[A-Z]{2})?)(\\.[A-Za-z0-9-]+)?(@[A-Za-z0-9]+)?$',
})

/** The language: LANG in /etc/locale.conf, or in /etc/default/locale where that is the one there is. */
export function locale(system: System): Setting<typeof schema> {
  const file = async () => ((await system.exists(SYSTEMD)) || !(await system.exists(DEBIAN)) ? SYSTEMD : DEBIAN)
  return {
    name: 'locale',
    schema,
    files: [SYSTEMD, DEBIAN],
    async read() {
      const text = await system.readText(await file())
      if (text === undefined) throw new HalError('ABSENT', 'no locale is set')
      const value = getValue(text, NAME)
      if (value === undefined) throw new HalError('UNREADABLE', `the file does not set ${NAME}`)
      return value
    },
    fallback: async () => 'C.UTF-8',
    async write(next) {
      const path = await file()
      return system.writeAtomic(path, setValue((await system.readForEdit(path)) ?? '', NAME, next))
    },
  }
}
