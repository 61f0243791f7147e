import type { BuildOptions } from 'esbuild'

/** A program in one CommonJS file that needs only Node. By default, the result stays in memory. */
export const PROGRAM = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  write: false,
  logLevel: 'warning',
} as const satisfies BuildOptions

/** The script and the style of the page, for browsers of the last three years. */
export const PAGE = {
  bundle: true,
  minify: true,
  platform: 'browser',
  format: 'iife',
  target: ['chrome111', 'firefox113', 'safari16.4'],
  charset: 'ascii',
  legalComments: 'none',
  write: false,
  logLevel: 'warning',
} as const satisfies BuildOptions

/**
 * How the service is bundled. Libraries go in as they are: if a plugin changed TypeBox, a schema would mean one thing in
 * the bundle and another in a test.
 */
export const SERVICE = { ...PROGRAM, minify: true, legalComments: 'none' } as const satisfies BuildOptions
