/** The steps that may come next: by the thumb, by others, and mishaps. */
import type { Random } from '../../support/random.ts'
import { NETWORKS, passwordOf, STATIONS, WRONG } from './air.ts'
import { FIELDS, type Field, keyOf } from './fields.ts'
import type { Guest } from './guest.ts'
import { KEY_REPLACED, type Model, REPLACE_KEY } from './model.ts'
import type { Press } from './press.ts'
import { FAULTS } from './proxy.ts'
import type { Room } from './room.ts'
import type { Thumb } from './thumb.ts'
import { updateNews, updateSteps } from './update.ts'
import type { Shown } from './watcher.ts'

const MAX_GUESTS = 6
/** The page waits longer after each. */
const MAX_REFUSED = 2
const VIEWS = ['Sessions', 'Settings', 'Sessions', 'Settings', 'Status', 'Log', 'Access', 'Update', 'Update']
/** The least that the device takes, and more. */
const TRIALS_S = [5, 60]
const TRIED = FIELDS.filter(({ isTried }) => isTried)
/** The names of networks stand between marks that isolate them. */
const ASKING_DIALOG = /^((Join|Remove) \u2068|Install |Discard )/

/** All that a step can act on. */
export interface Scene {
  readonly room: Room
  readonly model: Model
  readonly thumb: Thumb
  readonly press: Press
  readonly random: Random
  /** Counts the steps. */
  readonly at: number
}

export interface Step {
  readonly what: string
  /** How often it is taken, compared with the others that are possible. */
  readonly weight: number
  /** Its subject. */
  readonly guest?: Guest
  readonly field?: Field
  readonly act: () => Promise<unknown>
}

/** By others: the page learns of these by its streams. */
export function newsSteps(scene: Scene): readonly Step[] {
  const { room, model, random, at } = scene
  const guests = [...room.guests.values()].filter(({ state }) => state === 'pending' || state === 'active')
  const guest = guests.length > 0 ? random.pick(guests) : undefined
  const field = random.pick(FIELDS)
  const value = field.other(random, at, model.valueIn(field))
  // Nothing but a file can be changed during a trial.
  const isByHand = field.byHand !== undefined && (model.trial !== undefined || random.chance(0.3))
  const change = async () => {
    const before = model.valueIn(field)
    model.changed(field, value)
    if (isByHand) room.changeByHand(field, value)
    else if ((await room.change(field, value)) === undefined) model.changed(field, before)
  }
  const come = async () => model.fate(await room.enter(random), model.isOpen ? 'active' : 'pending')
  const steps: (Step | false)[] = [
    guests.length < MAX_GUESTS && { what: 'a device comes', weight: guests.length < 2 ? 10 : 3, act: come },
    (isByHand || !model.trial) && {
      what: `others set ${keyOf(field)} to ${value}${isByHand ? ' by hand' : ''}`,
      weight: 3,
      field,
      act: change,
    },
    ...trialSteps(scene),
    ...updateNews(scene),
  ]
  if (guest) steps.push(...stepsOf(guest, room, model))
  return steps.filter(step => step !== false)
}

/** Others put a change on trial, or end one: their own, or the page's. */
function trialSteps({ room, model, random, at }: Scene): readonly Step[] {
  const { trial } = model
  const field = random.pick(room.hasWifi ? [...TRIED, NETWORKS] : TRIED)
  const value = field.other(random, at, model.valueIn(field))
  const seconds = random.pick(TRIALS_S)
  const begin = async () => {
    const begun = await room.change(field, value, seconds)
    if (begun?.isOnTrial) model.tried({ id: begun.id, isOwn: false, seconds, values: [[field, value]] })
  }
  if (!trial) return [{ what: `others try ${keyOf(field)} ${value} for ${seconds} s`, weight: 1, field, act: begin }]
  const { id } = trial
  const keep = async () => {
    if (await room.endTrial(id, 'POST')) model.kept()
  }
  const undo = async () => {
    if (await room.endTrial(id, 'DELETE')) model.undone('cancelled')
  }
  return [
    { what: 'others keep the change that is on trial', weight: 2, act: keep },
    { what: 'others undo the change that is on trial', weight: 2, act: undo },
  ]
}

function stepsOf(guest: Guest, room: Room, model: Model): readonly Step[] {
  const leave = async () => {
    model.fate(guest, 'gone')
    room.leave(guest)
  }
  const decide = (verb: 'admit' | 'end') => () => {
    model.fate(guest, verb === 'admit' ? 'active' : 'gone')
    return room.decide(guest, verb)
  }
  return [
    { what: `${guest.name} leaves`, weight: 2, guest, act: leave },
    { what: `others end ${guest.name}`, weight: 1, guest, act: decide('end') },
    ...(guest.state === 'pending'
      ? [{ what: `others admit ${guest.name}`, weight: 2, guest, act: decide('admit') }]
      : []),
  ]
}

/** Mishaps, and changes to everything. */
export function upheavals({ room, model, random, at }: Scene): readonly Step[] {
  const approve = (approval: 'none' | 'moderator') => async () => {
    if (approval === 'none') model.opened()
    else model.isOpen = false
    await room.approve(approval)
  }
  const reached = STATIONS.map(({ ssid }) => ssid).filter(() => random.chance(0.7))
  const refused = 1 + random.below(MAX_REFUSED)
  const restart = async () => {
    model.isOpen = false
    const field = FIELDS[0]
    await room.restart(() => {
      if (field && random.chance(0.5)) {
        const value = field.other(random, at, model.valueIn(field))
        model.changed(field, value)
        room.changeByHand(field, value)
      }
      model.undone('restarted')
    })
    model.ends.closed()
  }
  const steps: (Step | false)[] = [
    { what: 'the connections are cut', weight: 1, act: async () => room.proxy.cut() },
    { what: `they are cut, and ${refused} requests refused`, weight: 0.5, act: async () => room.proxy.cut(refused) },
    { what: 'the service is restarted', weight: 0.7, act: restart },
    room.hasWifi && {
      what: `in reach are ${reached.join(', ') || 'none'}`,
      weight: 0.7,
      act: () => room.reach(reached),
    },
    !model.trial && {
      what: model.isOpen ? 'devices must be let in' : 'everybody may mirror',
      weight: model.isOpen ? 3 : 0.5,
      act: approve(model.isOpen ? 'moderator' : 'none'),
    },
    {
      what: 'others replace the key',
      weight: 0.3,
      act: () => room.replaceKey(),
    },
  ]
  return steps.filter(step => step !== false)
}

/** By the thumb, with the page as shown. */
export function thumbSteps(scene: Scene, shown: Shown): readonly Step[] {
  if (shown.isSigningIn) return [{ what: 'sign in', weight: 1_000, act: () => signIn(scene) }]
  const { random, press, model } = scene
  if (shown.dialog !== '') return dialogSteps(scene, shown)
  const view = random.pick(VIEWS.filter(view => view !== shown.view && shown.buttons.includes(view)))
  const steps: Step[] = [
    { what: `go to ${view}`, weight: 2, act: () => press.goTo(view) },
    { what: 'reload', weight: 0.3, act: () => reload(scene) },
    ...pressSteps(scene, shown),
    ...updateSteps(scene, shown, name => variantsOf(scene, name)),
  ]
  if (shown.state !== '' && shown.state !== 'Connected')
    steps.push(
      { what: 'try now', weight: 6, act: () => press.plain('Try now') },
      { what: 'wait for the connection', weight: 3, act: () => press.reconnected() },
    )
  if (shown.buttons.includes('Close'))
    steps.push({
      what: 'close the banner',
      weight: 1,
      act: async () => {
        const hit = await press.plain('Close')
        if (hit?.isAimed) model.ends.closed()
      },
    })
  if (shown.view === 'Access')
    steps.push({ what: 'think of a new key', weight: 6, act: () => press.plain(`${REPLACE_KEY}…`) })
  if (shown.view === 'Settings' && !shown.isBusy) {
    for (const [field, weight] of [[random.pick(FIELDS), 8] as const, [random.pick(TRIED), 4] as const]) {
      const value = field.other(random, scene.at, model.valueIn(field))
      if (shown.fields[keyOf(field)] !== value)
        steps.push({ what: `enter ${keyOf(field)}: ${value}`, weight, act: () => enter(scene, field, value, shown) })
    }
    steps.push(...wifiSteps(scene, shown))
    const noted = FIELDS.filter(field => shown.buttons.includes(`Use that: ${keyOf(field)}`))
    for (const field of noted)
      steps.push({
        what: `use theirs: ${keyOf(field)}`,
        weight: 3,
        act: async () => {
          const hit = await press.plain(`Use that: ${keyOf(field)}`)
          if (hit?.isAimed) model.entered(field, model.valueIn(field))
        },
      })
  }
  return steps
}

/** On the card of Wi-Fi, as far as nothing is changed yet. */
function wifiSteps({ press, thumb, model, random }: Scene, { buttons }: Shown): readonly Step[] {
  const isListed = buttons.some(name => name.startsWith('Join: '))
  const look = { what: 'look for networks', weight: isListed ? 0.5 : 3, act: () => press.look() }
  const offered = buttons.filter(name => /^(Join|Remove): /.test(name))
  if (!buttons.includes('Look for networks')) return []
  if (offered.length === 0) return [look]
  const name = random.pick(offered)
  const ssid = name.slice(name.indexOf(' ') + 1)
  const right = passwordOf(ssid)
  const password = right !== '' && random.chance(0.3) ? WRONG : right
  const open = async () => {
    const hit = await press.plain(name)
    if (!hit?.isAimed) return
    const isJoin = name.startsWith('Join')
    model.joining = isJoin ? { ssid, password, hidden: false } : undefined
    model.removing = isJoin ? '' : ssid
    if (isJoin && right !== '') await thumb.enter(`Join \u2068${ssid}\u2069`, 'Password', password, false)
  }
  return [look, { what: name, weight: 6, act: open }]
}

/** With an open dialog, nothing else can be pressed. */
function dialogSteps(scene: Scene, { dialog, buttons }: Shown): readonly Step[] {
  const { press, random, room } = scene
  const leave = { what: 'reload', weight: 0.5, act: () => reload(scene) }
  if (ASKING_DIALOG.test(dialog)) {
    const [action = ''] = buttons.filter(name => /^(Join|Join anyway|Remove|Install|Discard [\d.]+)$/.test(name))
    return [
      { what: 'Cancel', weight: 1, act: () => press.plain('Cancel') },
      ...(action === '' ? [] : variantsOf(scene, action)),
    ]
  }
  if (dialog === KEY_REPLACED) return [leave, { what: 'Done', weight: 5, act: () => press.plain('Done') }]
  if (!dialog.startsWith(REPLACE_KEY)) return [leave, { what: 'wait', weight: 1, act: async () => undefined }]
  const fault = random.pick(FAULTS)
  const replace = { what: 'others replace the key', weight: 1, act: () => room.replaceKey() }
  const [late] = FAULTS.filter(({ kind }) => kind === 'late')
  return [
    { what: 'Cancel', weight: 2, act: () => press.plain('Cancel') },
    { what: REPLACE_KEY, weight: 3, act: () => press.asking(REPLACE_KEY) },
    { what: `${REPLACE_KEY}, which is ${fault.kind}`, weight: 4, act: () => press.asking(REPLACE_KEY, { fault }) },
    { what: `${REPLACE_KEY}, while others do`, weight: 1, act: () => press.asking(REPLACE_KEY, { news: replace }) },
    ...(late
      ? [
          {
            what: `${REPLACE_KEY}, and reload`,
            weight: 2,
            act: async () => {
              await press.asking(REPLACE_KEY, { fault: late, isLeft: true })
              await reload(scene)
            },
          },
        ]
      : []),
  ]
}

/** Presses that ask the device for something: as they are, with news on their way, and with a fault. */
function pressSteps(scene: Scene, { buttons }: Shown): readonly Step[] {
  const { random, press, model } = scene
  const offered = buttons.filter(name => /^(Let in|Deny|End|Save|Discard|Prefer): /.test(name))
  if (offered.length === 0) return []
  const name = random.pick(offered)
  if (name.startsWith('Discard: ')) {
    const discard = async () => {
      const hit = await press.plain(name)
      if (hit?.isAimed) model.discarded(name.slice('Discard: '.length))
    }
    return [{ what: name, weight: 2, act: discard }]
  }
  return variantsOf(scene, name)
}

function variantsOf(scene: Scene, name: string): readonly Step[] {
  const { random, press } = scene
  const fault = random.pick(FAULTS)
  const isSession = /^(Let in|Deny|End): /.test(name)
  const news = random.pick(newsSteps(scene).filter(({ what }) => isSession || ABOUT_SETTINGS.test(what)))
  const then = isSession || random.chance(0.5) ? undefined : random.pick(FAULTS)
  return [
    { what: name, weight: 10, act: () => press.asking(name) },
    { what: `${name}, twice`, weight: 5, act: () => press.asking(name, { isTwice: true }) },
    { what: `${name}, while ${news.what}`, weight: 16, act: () => press.asking(name, { news }) },
    {
      what: `${name}, which is ${fault.kind}${then ? `, then ${then.kind}` : ''}`,
      weight: 8,
      act: () => press.asking(name, { fault, then }),
    },
  ]
}

const ABOUT_SETTINGS = /^others (set|try|keep|undo) /

async function enter({ thumb, model, press }: Scene, field: Field, value: string, shown: Shown): Promise<void> {
  const key = keyOf(field)
  model.entered(field, value)
  if (field.kind === 'toggle') {
    const hit = await press.plain(`Field: ${key}`)
    if (!hit?.isAimed) model.entered(field, shown.fields[key] ?? '')
  } else await thumb.enter(field.card, field.label, value, field.kind === 'choice')
}

async function reload({ thumb, model }: Scene): Promise<void> {
  await thumb.page.reload()
  model.forget()
}

async function signIn({ thumb, room, model }: Scene): Promise<void> {
  await thumb.page.evaluate(key => {
    location.hash = `#key=${key}`
  }, room.service.key)
  model.forget()
  model.key = room.service.key
}
