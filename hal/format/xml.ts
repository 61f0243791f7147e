const ENTITIES: Readonly<Record<string, string>> = { '<': '&lt;', '>': '&gt;', '&': '&amp;' }
/** Control characters are removed, whether or not XML allows them (XML 1.0 §2.2). */
const NOT_ALLOWED = /[\p{Cc}\p{Cs}\ufffe\uffff]/gu

/** A text as the content of an element, without the characters that XML does not allow. */
export function xmlText(text: string): string {
  return text.replace(NOT_ALLOWED, '').replace(/[<>&]/g, character => ENTITIES[character] ?? '')
}
