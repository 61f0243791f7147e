import type { Target } from '../target.ts'
import { connections } from './connections.ts'
import { credentials } from './credentials.ts'
import { editors } from './editors.ts'
import { patch } from './patch.ts'
import { readers } from './readers.ts'
import { recover } from './recover.ts'
import { uxplay } from './uxplay.ts'

export const TARGETS: readonly Target[] = [connections, credentials, editors, patch, readers, recover, uxplay]
