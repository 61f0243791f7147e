export type Grant = 'admin:r' | 'admin:w' | 'moderator:r' | 'moderator:w'

export const ALL_GRANTS: ReadonlySet<Grant> = new Set(['admin:r', 'admin:w', 'moderator:r', 'moderator:w'])

const ROLE_ENTRY = /^(admin|moderator):(r|w|rw|wr)$/

/** What an entry of the `roles` claim grants (`admin:rw` → admin:r, admin:w); undefined where it is not one. */
export function grantsOf(entry: unknown): readonly Grant[] | undefined {
  const match = typeof entry === 'string' ? ROLE_ENTRY.exec(entry) : null
  if (!match) return undefined
  const [, role, permissions] = match
  return Array.from(permissions ?? '', permission => `${role}:${permission}` as Grant)
}
