/** What the bundler puts in; run from its sources, the program was built when it was started. */
declare const __VERSION__: string | undefined
declare const __BUILT_AT__: number | undefined

export const VERSION = typeof __VERSION__ === 'string' ? __VERSION__ : '0.0.0'
/** When the program was built, milliseconds since 1970. */
export const BUILT_AT = typeof __BUILT_AT__ === 'number' ? __BUILT_AT__ : 0
