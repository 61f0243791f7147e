import t from 'tap'
import type { Slot } from '../../hal/format/rauc.ts'
import { fateOf } from '../../src/update/fate.ts'

const A: Slot = { name: 'rootfs.0', bootName: 'A', version: '1.0.0', state: 'good', isActivated: true }
const B: Slot = { name: 'rootfs.1', bootName: 'B', version: '1.1.0', state: 'good', isActivated: true }

const TRIAL = { slot: 'B', version: '1.1.0', bootId: 'this boot' }

t.test('the fate of a version that was being installed', async t => {
  const cases: readonly (readonly [
    what: string,
    booted: string,
    primary: string | undefined,
    b: Partial<Slot>,
    fate: string,
  ])[] = [
    ['it runs', 'B', 'B', {}, 'runs'],
    ['it was installed, and nobody has restarted', 'A', 'B', {}, 'waits'],
    ['its attempts are used up', 'A', 'A', { state: 'bad' }, 'rolled back'],
    ['somebody went back by hand', 'A', 'A', {}, 'rolled back'],
    ['no attempts are left anywhere', 'A', undefined, { state: 'bad' }, 'rolled back'],
    ['the power was cut before RAUC noted that it is started next', 'A', 'B', { isActivated: false }, 'waits'],
    ['the same, and it used up its attempts', 'A', 'A', { state: 'bad', isActivated: false }, 'interrupted'],
    ['it has another version', 'A', 'B', { version: '0.9.0' }, 'interrupted'],
    ['the power was cut while it was written', 'A', 'A', { state: 'bad', isActivated: false }, 'interrupted'],
    ['the power was cut before anything was written', 'A', 'A', { version: '0.9.0' }, 'interrupted'],
    ['the other system was empty', 'A', 'A', { state: 'empty', version: undefined, isActivated: false }, 'interrupted'],
  ]
  for (const [what, booted, primary, b, fate] of cases)
    t.equal(fateOf(TRIAL, booted, 'this boot', primary, [{ ...B, ...b }, A]), fate, what)
  const back: readonly (readonly [
    what: string,
    primary: string | undefined,
    bootId: string,
    b: Partial<Slot>,
    fate: string,
  ])[] = [
    ['nobody has restarted', 'B', 'this boot', {}, 'waits'],
    ['the boot loader could not load it', 'B', 'a later boot', {}, 'rolled back'],
    ['its attempts are used up', 'A', 'a later boot', { state: 'bad' }, 'rolled back'],
    ['no attempts are left anywhere', undefined, 'a later boot', { state: 'bad' }, 'rolled back'],
    ['the power was cut before RAUC was told', 'A', 'a later boot', {}, 'interrupted'],
  ]
  for (const [what, primary, bootId, b, fate] of back)
    t.equal(
      fateOf({ ...TRIAL, isReturn: true }, 'A', bootId, primary, [{ ...B, ...b }, A]),
      fate,
      `going back: ${what}`,
    )
  t.equal(fateOf({ ...TRIAL, slot: 'C' }, 'A', 'this boot', 'A', [A, B]), 'interrupted', 'a slot that is gone')
  t.equal(fateOf(TRIAL, 'A', 'a later boot', 'B', [A, B]), 'rolled back', 'the boot loader could not load it')
  t.equal(fateOf({ slot: 'B', version: '1.1.0' }, 'A', 'a later boot', 'B', [A, B]), 'waits', 'an old record')
})
