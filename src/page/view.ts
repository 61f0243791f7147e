/** A part of the page with its own address fragment. It is created when first shown, and then kept with its entries. */
export interface View {
  readonly element: HTMLElement
  /** Called each time the view is shown. */
  readonly shown?: () => void
  /** Called each time the view is hidden. */
  readonly hidden?: () => void
}

export interface Actions {
  readonly signOut: () => void
  /** Continues with another credential. */
  readonly replaceCredential: (credential: string) => void
}
