import type { BuildOptions } from 'esbuild'

/** A program in one CommonJS file that needs nothing but Node, by default in memory. */
export const PROGRAM = {
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'cjs',
  write: false,
  logLevel: 'warning',
} as const satisfies BuildOptions

/**
 * How the service is bundled. Libraries go in as they are: if a plugin changed TypeBox, a schema would mean one thing in
 * the bundle and another in a test.
 */
export const SERVICE = { ...PROGRAM, minify: true, legalComments: 'none' } as const satisfies BuildOptions
