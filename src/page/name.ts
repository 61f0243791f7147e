/** Names that others have chosen. */

/** Returns a name without what would not be seen or would turn the text around it. */
export function shown(name: string): string {
  return name.replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu, '\ufffd')
}

/** Reports whether nothing can be seen of a name. */
export function isBlank(name: string): boolean {
  return !/[^\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2800]/u.test(name)
}

/** Returns a name as somebody who sees it types it: several spaces look like one, and marks such as soft hyphens like nothing. */
export function typable(name: string): string {
  return name
    .normalize('NFC')
    .replace(/\p{Cf}/gu, '')
    .replace(/\s+/g, ' ')
    .trim()
}
