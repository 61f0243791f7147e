import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { HalError } from '../../../hal/errors.ts'
import type { Run } from '../../../hal/os/command.ts'
import type { Addresses } from '../../../hal/os/system.ts'

const FOLDERS = ['usr/lib/systemd/network', 'run/systemd/network', 'etc/systemd/network']

/**
 * systemd-networkd of a running system whose files are under a root, behind networkctl(1). It uses the files that it read
 * last.
 */
export class FakeNetworkd {
  readonly #root: string
  /** The address that each link gets by DHCP. */
  readonly #leases: Readonly<Record<string, string>>
  #files = new Map<string, string>()
  readonly #links = new Map<string, string>()

  constructor(root: string, leases: Readonly<Record<string, string>>) {
    this.#root = root
    this.#leases = leases
  }

  /** Each file as it was read, and the file that configures each link. */
  get text(): string {
    const files = Array.from(this.#files, ([name, text]) => `${name}:\n${text}`)
    const links = Array.from(this.#links, ([name, text]) => `${name} is configured by:\n${text}`)
    return [...files, ...links].join('')
  }

  readonly networkctl: Run = async argv => {
    if (argv[1] === 'reload') this.boot()
    else throw new HalError('COMMAND_FAILED', 'networkctl failed with status 1')
    return ''
  }

  readonly addresses = (): Addresses =>
    Object.fromEntries(
      Array.from(this.#links, ([name, text]) => {
        const isDhcp = /^DHCP=yes$/m.test(text)
        return [
          name,
          isDhcp ? [this.#leases[name] ?? ''] : Array.from(text.matchAll(/^Address=(.+)$/gm), at => at[1] ?? ''),
        ]
      }),
    )

  boot(): void {
    this.#load()
    for (const link of Object.keys(this.#leases)) this.#configure(link)
  }

  #load(): void {
    const files = FOLDERS.flatMap(folder => {
      const at = join(this.#root, folder)
      return existsSync(at) ? readdirSync(at).map(name => [name, readFileSync(join(at, name), 'utf8')] as const) : []
    })
    this.#files = new Map(files.filter(([name]) => name.endsWith('.network')).sort())
  }

  /** Configures a link by the first file, ordered by name, whose `Name=` is the link's. Other conditions are not implemented. */
  #configure(link: string): void {
    const text = [...this.#files.values()].find(text => new RegExp(`^Name=${link}$`, 'm').test(text))
    this.#links.set(link, text ?? '')
  }
}
