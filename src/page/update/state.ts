/** What the device says of its update (GET /update). What there is not is absent. */
export interface UpdateState {
  readonly running: { readonly version?: string; readonly slot: string; readonly state: 'good' | 'trial' }
  readonly other: { readonly version?: string; readonly state: 'good' | 'bad' | 'empty' }
  readonly state:
    | 'idle'
    | 'receiving'
    | 'downloading'
    | 'downloaded'
    | 'installing'
    | 'installed'
    | 'restarting'
    | 'failed'
  readonly waitingFor?: 'window' | 'sessions' | 'clock'
  readonly bundle?: BundleState
  readonly percent?: number
  readonly error?: { readonly type: string; readonly detail: string }
  readonly last?: Outcome
  readonly available?: { readonly version: string; readonly checkedAt: string }
  readonly testKeys?: true
}

interface BundleState {
  readonly version?: string
  /** Undefined if it is not known. */
  readonly bytes?: number
  readonly receivedBytes: number
  readonly source: 'upload' | 'url'
}

/** What became of the last update. */
export interface Outcome {
  readonly version: string
  readonly outcome: 'installed' | 'rolled back' | 'failed'
  readonly reason?: string
  readonly at?: string
}

/** What became of the last update, unless somebody has asked for just that. */
export function newsOf(update: UpdateState | undefined): Outcome | undefined {
  return update?.last?.reason === 'asked for' ? undefined : update?.last
}
