/** The end-to-end suite on the bundle, as a process that serves a folder. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { Receiver, receiverd } from '../interop/support.ts'
import { deviceRoot } from '../support/device.ts'
import { endToEnd, type Target } from './suite.ts'

class BundleTarget extends Receiver implements Target {
  async readFile(path: string): Promise<string> {
    return readFileSync(this.path(path), 'utf8')
  }

  async replaceFile(path: string, text: string): Promise<void> {
    writeFileSync(`${this.path(path)}.new`, text)
    renameSync(`${this.path(path)}.new`, this.path(path))
  }

  async receiverd(...args: string[]): Promise<string> {
    const { status, stdout, stderr } = await receiverd([...args, '--root', this.root])
    if (status !== 0) throw new Error(stderr)
    return stdout.trim()
  }

  /** It is in its file. */
  async loadKey(): Promise<void> {}
}

async function start(t: Test): Promise<BundleTarget> {
  const target = new BundleTarget(deviceRoot(t))
  t.teardown(() => target.kill())
  await target.start()
  return target
}

t.test('the bundle', async t => endToEnd(t, await start(t)))
