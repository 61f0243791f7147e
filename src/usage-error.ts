/** A mistake on the command line or in the environment: one line that names it and says what is accepted. */
export class UsageError extends Error {}
