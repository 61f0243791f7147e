import * as Type from 'typebox/type'
import type { Setting } from '../../hal/setting.ts'

/** A setting, `slow`, whose change takes until it is told to end. */
export class SlowSetting {
  readonly begun: Promise<void>
  readonly setting: Setting
  end: () => void = () => undefined

  constructor() {
    const ended = new Promise<void>(resolve => {
      this.end = resolve
    })
    let begin: () => void = () => undefined
    this.begun = new Promise(resolve => {
      begin = resolve
    })
    let value: unknown = false
    this.setting = {
      name: 'slow',
      schema: Type.Boolean(),
      files: [],
      withoutActivate: 'it has no effect',
      read: async () => value,
      fallback: async () => false,
      write: async next => {
        begin()
        await ended
        value = next
        return true
      },
    }
  }
}
