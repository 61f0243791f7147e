/** A file of the page. Its name contains a digest of its content, so browsers can cache it forever. */
export interface Asset {
  readonly name: string
  readonly type: string
  /** The gzipped content (RFC 1952), in Base64. A function, so that it is not in memory until somebody opens the page. */
  readonly gzip: () => string
}

/** The Device Management page. */
export interface Page {
  readonly html: () => string
  readonly assets: readonly Asset[]
}

/** Defined by the bundler. They are undefined in a program that runs from its sources. */
declare const __PAGE_HTML__: string | undefined
declare const __PAGE_SCRIPT_GZIP__: string
declare const __PAGE_SCRIPT_NAME__: string
declare const __PAGE_STYLE_GZIP__: string
declare const __PAGE_STYLE_NAME__: string

/** Methods, because V8 creates their strings on the first call; for an arrow function without braces, it does so at once. */
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
