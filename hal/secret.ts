/**
 * In place of the password or the like in a setting's value: the one that the device has. It is too short to be a password
 * itself.
 */
export const KEPT = 'set'
