/**
 * Stands for the password that the device has, or for another secret, in the value of a setting. It is too short to be a
 * password itself.
 */
export const KEPT = 'set'
