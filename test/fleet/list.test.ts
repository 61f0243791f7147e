import t from 'tap'
import { stateIn } from '../../src/fleet/list.ts'

const SWITCHED_OFF = { storage: { readOnly: false }, keyStored: true }
const STATUS = { ...SWITCHED_OFF, airplayReady: true }

t.test('the state of a device is what its owner should see to first', async t => {
  for (const [status, state] of [
    [STATUS, 'ok'],
    [SWITCHED_OFF, 'ok'],
    [{ ...STATUS, airplayReady: false }, 'not ready'],
    [{ ...STATUS, airplayReady: false, keyStored: false }, 'not stored'],
    [{ ...STATUS, storage: { readOnly: false, temporary: true } }, 'not stored'],
    [{ ...STATUS, storage: { readOnly: true, temporary: true }, keyStored: false }, 'read-only'],
    [{ ...STATUS, storage: { readOnly: true }, trial: { id: '1' } }, 'on trial'],
  ] as const)
    t.equal(stateIn(status), state, JSON.stringify(status))
})
