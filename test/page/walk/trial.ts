/** A change on trial, as it is expected: the device undoes it unless it is confirmed. */
import type { Field } from './fields.ts'

/** Looked for on the page once a trial is over. */
const KEPT = /^Saved\. The device (can still be reached|is in .*)\.$/
const UNDONE =
  /so the device has undone it\.$|is not on the device|It undoes the change by itself\.$|so the change was undone\./

const BECAUSE = {
  'not confirmed': 'The change was not confirmed in time, so the device has undone it:',
  cancelled: 'The change was undone before it was confirmed:',
  restarted: 'The device was restarted before the change was confirmed, so it was undone:',
} as const
export type Reason = keyof typeof BECAUSE

export interface Begun {
  /** The ETag of the change. */
  readonly id: string
  /** It was made on the page. */
  readonly isOwn: boolean
  readonly seconds: number
  readonly values: readonly (readonly [Field, string])[]
}

export class Trial {
  readonly id: string
  readonly isOwn: boolean
  /** The value before, and the one on trial. */
  readonly values: ReadonlyMap<Field, { readonly before: string; readonly now: string }>
  readonly #endsAt: number

  constructor({ id, isOwn, seconds, values }: Begun, valueIn: (field: Field) => string) {
    this.id = id
    this.isOwn = isOwn
    this.values = new Map(values.map(([field, now]) => [field, { before: valueIn(field), now }]))
    this.#endsAt = performance.now() + seconds * 1000
  }

  get isOver(): boolean {
    return performance.now() > this.#endsAt
  }
}

/** The parts of the page that tell of trials. */
export interface Told {
  readonly banners: readonly string[]
  readonly toast: string
  readonly problems: readonly { readonly card: string; readonly text: string }[]
}

/** The end of trials, as the page may tell it. */
export class Ends {
  /** The card of the page's own last one, and whether that is kept; it is not as long as it has not ended. */
  #own = ''
  #isKept = false
  /** Banners on those that were undone: the last one, and any that may still be there because the page has missed the last. */
  #banners: readonly string[] = []
  /** The page must have the last one. */
  #isShown = false

  /** The page begins one, or is a new page. */
  reset(): void {
    this.#own = ''
    this.#isKept = false
  }

  kept({ isOwn, values }: Trial): void {
    if (!isOwn) return
    this.#own = [...values.keys()][0]?.card ?? ''
    this.#isKept = true
  }

  /** @param isTold The page cannot have missed it. */
  undone({ values }: Trial, reason: Reason, isTold: boolean): void {
    const changed = [...values].flatMap(([{ label }, { before, now }]) => (before === now ? [] : [label]))
    this.#banners = [...this.#banners, `${BECAUSE[reason]} ${namesOf(changed.join(', '))}`]
    this.#isShown = isTold
  }

  /** The banner was closed, or is lost with its page. */
  closed(): void {
    this.#isShown = false
  }

  /** An untruth in what the page tells. */
  difference({ banners, toast, problems }: Told): string | undefined {
    const found = banners.map(asBanner).find(text => text !== undefined)
    const last = this.#banners.at(-1)
    if (this.#isShown ? found !== last : found !== undefined && !this.#banners.includes(found))
      return `its banner says “${found}”, not “${last}”`
    if (found === last) this.#banners = this.#banners.slice(-1)
    const said = problems.find(({ card, text }) => card === this.#own && UNDONE.test(text))
    if (said && this.#isKept) return `the change is kept, and the page says: ${said.text}`
    if (KEPT.test(toast) && !this.#isKept) return `the change is not kept, and the page says: ${toast}`
    return undefined
  }
}

/** The device names the settings in the order in which they were undone. */
function namesOf(list: string): string {
  return list.split(', ').toSorted().join(', ')
}

function asBanner(text: string): string | undefined {
  const because = Object.values(BECAUSE).find(because => text.startsWith(because))
  return because && `${because} ${namesOf(text.slice(because.length).trim().replace(/\.$/, ''))}`
}
