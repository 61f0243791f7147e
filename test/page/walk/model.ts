/** The expected state of the device and of its page. */

import { NETWORKS, type Network, networksOf } from './air.ts'
import { FIELDS, type Field, keyOf, patchOf, shownOf, valuesOf } from './fields.ts'
import type { Guest } from './guest.ts'
import { type Answer, type Sent, TRIAL_S } from './proxy.ts'
import type { Listed, Room } from './room.ts'
import { type Begun, Ends, type Reason, Trial } from './trial.ts'
import type { Hit, Shown } from './watcher.ts'

/** `unknown`: a decision about it was cut off. */
type Fate = 'pending' | 'active' | 'gone' | 'unknown'

/** The dialog with a new key, and the button that makes one. */
export const KEY_REPLACED = 'The new API key'
export const REPLACE_KEY = 'Replace the API key'

export class Model {
  readonly #room: Room
  readonly #fates = new Map<Guest, Fate>()
  /** The device's settings, by field, as their controls show them. */
  readonly #values = new Map<Field, string>()
  /** Entries on the page that are not saved. */
  readonly #entered = new Map<Field, string>()
  /** Fields that somebody is changing at this moment, or whose change was cut off: either value may be the one. */
  readonly #unsure = new Set<Field>()
  isOpen = false
  /** The key that the page has, or has made. */
  key: string
  #trial: Trial | undefined
  readonly #ownTrials = new Set<string>()
  readonly ends = new Ends()
  /** What the open dialog is to join. */
  joining: Network | undefined
  /** What it is to remove. */
  removing = ''

  private constructor(room: Room) {
    this.#room = room
    this.key = room.service.key
  }

  static async of(room: Room): Promise<Model> {
    const model = new Model(room)
    const { value } = await room.service.system()
    for (const field of model.#all) model.#values.set(field, shownOf(field, value))
    return model
  }

  get #all(): readonly Field[] {
    return this.#room.hasWifi ? [...FIELDS, NETWORKS] : FIELDS
  }

  /** The page's key is not the one in force. */
  get isKeyOld(): boolean {
    return this.key !== this.#room.service.key
  }

  /** The change that awaits its confirmation. */
  get trial(): Trial | undefined {
    if (this.#trial?.isOver) this.undone('not confirmed')
    return this.#trial
  }

  /** A change is on trial. */
  tried(begun: Begun): void {
    this.#trial = new Trial(begun, field => this.valueIn(field))
    if (begun.isOwn) this.#ownTrials.add(begun.id)
    for (const [field, value] of begun.values) this.changed(field, value)
  }

  /** It was confirmed. */
  kept(): void {
    if (this.#trial) this.ends.kept(this.#trial)
    this.#trial = undefined
  }

  undone(reason: Reason): void {
    const trial = this.#trial
    this.#trial = undefined
    if (!trial) return
    for (const [field, { before, now }] of trial.values) {
      // Others have changed it as well; or the page, which had no answer, need not know that it was ever changed.
      if (this.valueIn(field) !== now || this.#entered.has(field)) this.unsure(field)
      this.changed(field, before)
    }
    // After a restart, the page hears of it only if it comes back before the next change.
    this.ends.undone(trial, reason, reason !== 'restarted' && !this.isKeyOld)
  }

  /** The device has answered the page. */
  heard({ method, path, body, ifMatch }: Sent, { status, etag, trialS }: Answer): void {
    if (status >= 300) return
    // One that was kept before is kept again.
    if (path === '/system/confirm' && ifMatch !== this.#trial?.id) return
    if (path === '/system/confirm') return method === 'POST' ? this.kept() : this.undone('cancelled')
    if (trialS !== undefined) this.tried({ id: etag, isOwn: true, seconds: trialS, values: valuesOf(JSON.parse(body)) })
    if (path !== '/api-key') return
    this.key = (JSON.parse(body) as { apiKey: string }).apiKey
    this.forget()
  }

  /** It confirms a change that was made on the page, or undoes it: nobody presses for that. */
  isFollowUp({ path, ifMatch }: Sent): boolean {
    return path === '/system/confirm' && this.#ownTrials.has(ifMatch)
  }

  fate(guest: Guest, fate: Fate): void {
    this.#fates.set(guest, fate)
  }

  changed(field: Field, value: string): void {
    this.#values.set(field, value)
  }

  entered(field: Field, value: string): void {
    if (value === this.#values.get(field)) this.#entered.delete(field)
    else this.#entered.set(field, value)
  }

  /** All entries are lost, as with the page. */
  forget(): void {
    this.#entered.clear()
    this.ends.reset()
    this.ends.closed()
  }

  discarded(card: string): void {
    for (const field of this.#entered.keys()) if (field.card === card) this.#entered.delete(field)
  }

  saved(card: string): void {
    for (const [field, value] of this.#entered) if (field.card === card) this.changed(field, value)
  }

  /** The page has the answer: a saved value is not an entry any more, even if the page has not heard yet of its result. */
  answered(name: string): void {
    const [verb, what] = parts(name)
    if (verb !== 'Save') return
    for (const field of this.enteredIn(what))
      if (this.#unsure.has(field) || this.#entered.get(field) === this.valueIn(field)) this.#entered.delete(field)
  }

  unsure(field: Field): void {
    this.#unsure.add(field)
  }

  unsureOf(card: string): void {
    for (const field of this.#entered.keys()) if (field.card === card) this.unsure(field)
  }

  valueIn(field: Field): string {
    return this.#values.get(field) ?? ''
  }

  enteredIn(card: string): readonly Field[] {
    return [...this.#entered.keys()].filter(field => field.card === card)
  }

  /** How the device differs from the model; takes over what nobody can know. */
  async differenceOfDevice(): Promise<string | undefined> {
    const expected = this.trial?.id
    const onTrial = await this.#room.onTrial()
    if (onTrial !== expected) return `${onTrial} is on trial, not ${expected}`
    const { value } = await this.#room.service.system()
    const { connected = '' } = value.wifi as { connected?: string }
    if (connected !== this.#room.joined) return `the device is in “${connected}”, not in “${this.#room.joined}”`
    for (const field of this.#all) {
      const shown = shownOf(field, value)
      if (this.#unsure.has(field)) this.changed(field, shown)
      else if (shown !== this.valueIn(field)) return `${keyOf(field)} is ${shown}, not ${this.valueIn(field)}`
    }
    const listed = await this.#room.listed()
    for (const guest of this.#fates.keys()) {
      const difference = this.#differenceOf(guest, listed)
      if (difference !== undefined) return difference
    }
    return undefined
  }

  #differenceOf(guest: Guest, listed: readonly Listed[]): string | undefined {
    const now = listed.find(({ id }) => id === guest.id)?.state ?? 'gone'
    const fate = this.#fates.get(guest)
    if (guest.state !== now) return `${guest.name} is ${now}, and its engine was told ${guest.state}`
    if (fate === 'unknown') this.fate(guest, now)
    else if (fate !== now) return `${guest.name} is ${now}, not ${fate}`
    if (now === 'gone') {
      this.#fates.delete(guest)
      this.#room.guests.delete(guest.name)
    }
    return undefined
  }

  /** An untruth on the page; undefined if there is none, or the page says that it does not know. */
  differenceOfPage(shown: Shown): string | undefined {
    if (this.isKeyOld) return shown.isSigningIn ? undefined : 'the page goes on with a key that was replaced'
    if (shown.isSigningIn) return 'the page asks for a key that it has'
    if (shown.dialog === KEY_REPLACED && shown.key !== this.key) return `the page shows the key ${shown.key}`
    if (shown.state !== 'Connected') return undefined
    const [waiting, mirroring] = (['pending', 'active'] as const).map(fate => this.#namesOf(fate))
    const name = this.#named('General/Device name')
    const count = waiting?.length ?? 0
    const expected: Partial<Shown> = {
      name,
      title: `${count > 0 ? `(${count}) ` : ''}${name} – ${shown.view}`,
      summary: summaryOf(count, mirroring?.length ?? 0),
      ...(shown.view === 'Sessions' && {
        waiting: waiting ?? [],
        mirroring: mirroring ?? [],
        called: this.#called(name),
      }),
    }
    for (const [part, value] of Object.entries(expected)) {
      const found = shown[part as keyof Shown]
      const seen = Array.isArray(found) ? found.toSorted() : found
      if (String(seen) !== String(value)) return `${part} shows “${seen}”, not “${value}”`
    }
    return this.ends.difference(shown) ?? (shown.view === 'Settings' ? this.#differenceOfFields(shown) : undefined)
  }

  #differenceOfFields(shown: Shown): string | undefined {
    const known = networksOf(this.valueIn(NETWORKS)).map(
      ({ ssid }) => `${ssid}${ssid === this.#room.joined ? ' *' : ''}`,
    )
    const found = shown.networks.map(({ ssid, isConnected }) => `${ssid}${isConnected ? ' *' : ''}`)
    if (this.#room.hasWifi && String(found) !== String(known)) return `shows the networks ${found}, not ${known}`
    for (const field of FIELDS) {
      const key = keyOf(field)
      const [found, value, entered] = [shown.fields[key], this.valueIn(field), this.#entered.get(field)]
      const isLost = entered !== undefined && found !== entered
      if (isLost && !(this.#unsure.has(field) && found === value))
        return `${key} was entered as ${entered}, shows ${found}`
      if (entered === undefined && found !== value) return `${key} shows ${found}, not ${value}`
      const note = shown.notes[key] ?? ''
      if (field.kind === 'text' && note !== '' && note !== `Changed elsewhere to ${value}.`)
        return `${key} is ${value}, and its note says: ${note}`
    }
    for (const card of new Set(FIELDS.map(({ card }) => card))) {
      const isDirty = this.enteredIn(card).some(field => shown.fields[keyOf(field)] !== this.valueIn(field))
      if (isDirty !== shown.unsaved.includes(card))
        return `${card} is ${isDirty ? 'not ' : ''}saved, and says otherwise`
    }
    return undefined
  }

  /** The page and the device agree: doubts are settled, and an entry is saved where it is the value. */
  settled(shown: Shown): void {
    if (shown.state !== 'Connected') return
    for (const [field, entered] of this.#entered)
      if (entered === this.valueIn(field) || shown.fields[keyOf(field)] === this.valueIn(field))
        this.#entered.delete(field)
    if (!shown.isBusy) this.#unsure.clear()
  }

  /**
   * The promise of this control, as `METHOD path body`. There are two answers where the entered value has just become
   * the device's: it may be sent, or not.
   */
  promisesOf({ name, fields, networks }: Hit): readonly string[] {
    const [verb = '', what] = parts(name)
    if (verb === 'Save') {
      const all = this.enteredIn(what).map(field => [field, fields[keyOf(field)] ?? ''] as const)
      const different = all.filter(([field, shown]) => shown !== this.valueIn(field))
      return [different, all].map(values => {
        const query = values.some(([{ isTried }]) => isTried) ? `?confirmWithin=${TRIAL_S}` : ''
        return values.length === 0 ? '' : `PATCH /system${query} ${canonical(patchOf(values))}`
      })
    }
    const known = networks.map(({ ssid }) => ssid)
    const without = (gone: string) => networksOf(known.filter(ssid => ssid !== gone).join(', '))
    const { joining, removing } = this
    if (verb === 'Prefer') return [promiseOfNetworks([...networksOf(what), ...without(what)])]
    if (joining && /^Join( anyway)?$/.test(name)) return [promiseOfNetworks([joining, ...without(joining.ssid)])]
    if (name === 'Remove') return [promiseOfNetworks(without(removing))]
    if (name === 'Install') return ['POST /update/install {"allowOlder":false,"restart":"manual"}']
    if (name === 'Discard') return ['DELETE /update/bundle ']
    if (/^Discard [\d.]+$/.test(name)) return ['DELETE /update/install ']
    if (name === REPLACE_KEY) return ['POST /api-key {"apiKey":"…","removeIssuers":false}']
    // Its row may still be that of the session which it had before a restart.
    const ids = this.#room.idsOf(what)
    if (verb === 'Let in') return ids.map(id => `POST /sessions/${id}/admit?replace=false `)
    return verb === 'Deny' || verb === 'End' ? ids.map(id => `DELETE /sessions/${id} `) : ['']
  }

  /** The device has done as pressed; or nobody knows whether it has. */
  done(name: string, { path }: Sent, isKnown: boolean): void {
    const [verb, what] = parts(name)
    if (verb === 'Save') return isKnown ? this.saved(what) : this.unsureOf(what)
    const guest = this.#room.guests.get(what)
    const fate = guest && this.#fates.get(guest)
    if (!guest || fate === undefined || fate === 'gone' || !path.includes(guest.id)) return
    if (!isKnown) this.fate(guest, 'unknown')
    else if (fate !== 'unknown') this.fate(guest, verb === 'Let in' ? 'active' : 'gone')
  }

  /** Others have decided at the same moment. */
  doubt(guest: Guest): void {
    this.fate(guest, 'unknown')
  }

  /** A device that waited need not wait any more. */
  opened(): void {
    this.isOpen = true
    for (const [guest, fate] of this.#fates) if (fate === 'pending') this.fate(guest, 'active')
  }

  #namesOf(fate: Fate): readonly string[] {
    return [...this.#fates].flatMap(([guest, is]) => (is === fate ? [guest.name] : [])).toSorted()
  }

  #named(key: string): string {
    const field = FIELDS.find(field => keyOf(field) === key)
    return field ? this.valueIn(field) : ''
  }

  #called(name: string): string {
    if (this.#named('AirPlay/Enabled') === 'false') return ''
    return `Phones find this receiver as ${this.#named('AirPlay/Name') || name}.`
  }
}

/** The verb of a button, and its object. */
function parts(name: string): readonly [verb: string, what: string] {
  const [verb = '', ...rest] = name.split(': ')
  return [verb, rest.join(': ')]
}

function promiseOfNetworks(networks: readonly Network[]): string {
  return `PATCH /system?confirmWithin=${TRIAL_S} ${canonical({ wifi: { networks } })}`
}

/** As `promisesOf` says it. */
export function textOf({ method, path, body }: Sent): string {
  const text = body === '' ? '' : canonical(JSON.parse(body))
  // The page itself makes it.
  return `${method} ${path} ${text.replace(/(?<="apiKey":")[\w-]{43}/, '…')}`
}

/** JSON with the names in order, as far down as a patch of these fields goes. */
function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`)
  return `{${members.toSorted().join()}}`
}

function summaryOf(waiting: number, mirroring: number): string {
  if (waiting > 0) return `${waiting} waiting`
  return mirroring > 0 ? `${mirroring} mirroring` : 'Nobody is mirroring'
}
