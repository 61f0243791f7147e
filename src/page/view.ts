/** A part of the page that has a place in the address. It is made when it is first shown, and kept with what was typed. */
export interface View {
  readonly element: HTMLElement
  /** Called each time that it comes into sight. */
  readonly shown?: () => void
  /** Called each time that it goes out of sight. */
  readonly hidden?: () => void
}

export interface Actions {
  readonly signOut: () => void
  /** Goes on with another credential. */
  readonly replaceCredential: (credential: string) => void
}
