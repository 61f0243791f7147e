export type Grant = 'admin:r' | 'admin:w' | 'moderator:r' | 'moderator:w'

export const ALL_GRANTS: ReadonlySet<Grant> = new Set(['admin:r', 'admin:w', 'moderator:r', 'moderator:w'])

/** By entry of the `roles` claim: `admin:rw` → admin:r, admin:w. */
const GRANTS = new Map<unknown, ReadonlySet<Grant>>()
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

/** What an entry of the `roles` claim grants; undefined where it is not one. */
export function grantsOf(entry: unknown): ReadonlySet<Grant> | undefined {
  return GRANTS.get(entry)
}
