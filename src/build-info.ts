/** Defined by the bundler. They are undefined in a program that runs from its sources. */
declare const __VERSION__: string | undefined
declare const __BUILT_AT__: number | undefined

export const VERSION = typeof __VERSION__ === 'string' ? __VERSION__ : '0.0.0'
/** When the program was built, in milliseconds since 1970; 0 if it runs from its sources. */
export const BUILT_AT = typeof __BUILT_AT__ === 'number' ? __BUILT_AT__ : 0
