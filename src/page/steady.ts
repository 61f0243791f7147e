/** Milliseconds for which an element that moved or appeared ignores clicks, which may be meant for what was there before. */
const MOVED_MS = 500
/** Buttons that act at once, or what holds them. */
const ACTING = '.decide, .actions, .note, .list button'

const look = () =>
  new Map(Array.from(document.querySelectorAll(ACTING), element => [element, element.getBoundingClientRect().bottom]))
let places = look()

function compare(isNewToo: boolean): void {
  const before = places
  places = look()
  // The keyboard needs no such protection: the focus moves with the element.
  for (const [element, place] of places)
    if (place !== before.get(element) && (isNewToo || before.get(element)))
      element.animate({ pointerEvents: ['none', 'none'] }, MOVED_MS)
}

/** Makes a change that may move or add elements, and protects them from clicks meant for others. */
export function moving(change: () => void): void {
  places = look()
  change()
  compare(true)
}

/** Protects all elements: any of them may have come to a place where another was, as when a dialog opens or closes. */
export function protectAll(): void {
  places = new Map()
  compare(true)
}

// Anything else that moves elements changes the height of the page. New elements are not protected then: the user asked for them.
new ResizeObserver(() => compare(false)).observe(document.body)
