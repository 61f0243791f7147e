/** An owner who has Ansible, and the README's files for it. */
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { FLEET_PROGRAM, REPOSITORY } from '../../build/bundle-file.ts'
import { DEADLINE_MS } from '../support/eventually.ts'
import { readText } from '../support/readme.ts'
import { type RunOptions, run } from '../support/run.ts'
import { Owner } from './support.ts'

const COLLECTION = 'src/fleet/ansible'
const README = readText('src/fleet/README.md')
/** The playbook and the inventory in the README, which stand in a list. */
const [INVENTORY_IN_README = '', PLAYBOOK_IN_README = ''] = Array.from(
  README.slice(README.indexOf('## Ansible')).matchAll(/^ {3}```yaml\n(.*?)^ {3}```/gms),
  ([, text = '']) => text.replace(/^ {3}/gm, ''),
)
export const INVENTORY = `${INVENTORY_IN_README}program: ${join(REPOSITORY, 'build/out', FLEET_PROGRAM.name)}\n`
export const PLAYBOOK = PLAYBOOK_IN_README

export interface Result {
  readonly state: string
  readonly changed: boolean
  readonly changes?: readonly { readonly pointer: string; readonly before: unknown; readonly after: unknown }[]
  readonly diff?: { readonly before: unknown; readonly after: unknown }
  readonly msg?: string
  readonly note?: string
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[]
}

/** An owner who has Ansible, with the collection where Ansible looks for it. */
export class Controller extends Owner {
  readonly #playMs: number

  /** @param playMs Longer than any playbook takes. */
  constructor(t: Test, playMs = 10 * DEADLINE_MS) {
    super(t)
    this.#playMs = playMs
    mkdirSync(this.path('ansible_collections/receiverd'), { recursive: true })
    symlinkSync(join(REPOSITORY, COLLECTION), this.path('ansible_collections/receiverd/receiverd'))
    this.write('receiverd.yml', INVENTORY)
    this.write('receivers.yml', PLAYBOOK)
  }

  /** @param started Gets the process. */
  ansible(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}, started?: RunOptions['started']) {
    const own = {
      HOME: this.folder,
      ANSIBLE_COLLECTIONS_PATH: this.folder,
      ANSIBLE_NOCOLOR: '1',
      ANSIBLE_FORKS: '4',
      PYTHONDONTWRITEBYTECODE: '1',
    }
    const options = { cwd: this.folder, withinMs: this.#playMs, started }
    return run(program, args, { LANG: 'C.UTF-8', ...own, ...env }, options)
  }

  /** Runs the playbook. @returns what became of each device, and all that was printed. */
  async play(args: readonly string[] = [], env: NodeJS.ProcessEnv = {}, started?: RunOptions['started']) {
    const began = performance.now()
    const all = ['-v', '--inventory', this.path('receiverd.yml'), this.path('receivers.yml'), ...args]
    const { status, stdout, stderr } = await this.ansible('ansible-playbook', all, env, started)
    const took = Math.round(performance.now() - began)
    const lines = stdout.matchAll(/^(ok|changed|fatal): \[([\w-]+)\](?:: FAILED!)? => (\{.*\})$/gm)
    const of = Object.fromEntries(
      Array.from(lines, ([, state = '', name = '', result = '']) => [name, { state, ...JSON.parse(result) } as Result]),
    )
    return { status, of, took, text: stdout + stderr }
  }
}
