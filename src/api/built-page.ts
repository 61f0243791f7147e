/** A file of the page. Its name has a digest of its content, so that browsers may keep it. */
export interface Asset {
  readonly name: string
  readonly type: string
  /** Compressed (RFC 1952), in Base64. A function, so that nothing of the page is in memory before somebody opens it. */
  readonly gzip: () => string
}

/** The Device Management page. */
export interface Page {
  readonly html: () => string
  readonly assets: readonly Asset[]
}

/** Set by the bundler. A program that runs from its sources has none of them. */
declare const __PAGE_HTML__: string | undefined
declare const __PAGE_SCRIPT_GZIP__: string
declare const __PAGE_SCRIPT_NAME__: string
declare const __PAGE_STYLE_GZIP__: string
declare const __PAGE_STYLE_NAME__: string

/** Methods: V8 makes their strings when they are called, but those of an arrow function without braces at once. */
export const BUILT_PAGE: Page | undefined =
  typeof __PAGE_HTML__ === 'string'
    ? {
        html() {
          return __PAGE_HTML__
        },
        assets: [
          {
            name: __PAGE_SCRIPT_NAME__,
            type: 'text/javascript; charset=utf-8',
            gzip() {
              return __PAGE_SCRIPT_GZIP__
            },
          },
          {
            name: __PAGE_STYLE_NAME__,
            type: 'text/css; charset=utf-8',
            gzip() {
              return __PAGE_STYLE_GZIP__
            },
          },
        ],
      }
    : undefined
