export type Grant = 'admin:r' | 'admin:w' | 'moderator:r' | 'moderator:w'

export const ALL_GRANTS: ReadonlySet<Grant> = new Set(['admin:r', 'admin:w', 'moderator:r', 'moderator:w'])

/** Grants by entry of the `roles` claim: `admin:rw` → admin:r, admin:w. */
const GRANTS = new Map<string, ReadonlySet<Grant>>()
for (const role of ['admin', 'moderator'] as const)
  for (const permissions of ['r', 'w', 'rw', 'wr'])
    GRANTS.set(
      `${role}:${permissions}`,
      new Set(
        (['r', 'w'] as const)
          .filter(permission => permissions.includes(permission))
          .map(permission => `${role}:${permission}` as const),
      ),
    )

/** The valid entries of the `roles` claim. */
export const ROLES = [...GRANTS.keys()]

/** Returns the grants of an entry in the `roles` claim; undefined if the entry is invalid. */
export function grantsOf(entry: unknown): ReadonlySet<Grant> | undefined {
  return GRANTS.get(entry as string)
}
