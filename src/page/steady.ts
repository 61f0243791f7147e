/** Milliseconds for which what has moved, or is new, takes no finger: it may be on its way to what was there before. */
const MOVED_MS = 500
/** What acts at once. */
const ACTING = '.decide, .actions, .note'

const look = () =>
  new Map(Array.from(document.querySelectorAll(ACTING), element => [element, element.getBoundingClientRect().bottom]))
let places = look()

function compare(isNewToo: boolean): void {
  const before = places
  places = look()
  // Keys have their focus, which moves with it.
  for (const [element, place] of places)
    if (place !== before.get(element) && (isNewToo || before.get(element)))
      element.animate({ pointerEvents: ['none', 'none'] }, MOVED_MS)
}

/** Does what may move something on the page, or bring something new, while a finger is on its way. */
export function moving(change: () => void): void {
  places = look()
  change()
  compare(true)
}

// What else moves something changes the height of the page. What is new then is what somebody has asked for.
new ResizeObserver(() => compare(false)).observe(document.body)
