import { test } from 'tap'
import { type BundleAnswer, type BundleRequest, DownloadError } from '../../hal/os/downloads.ts'
import { Problem } from '../../src/problem.ts'
import type { Upload } from '../../src/update/bundle-store.ts'
import { Fetcher } from '../../src/update/fetcher.ts'
import { eventually } from '../support/eventually.ts'

const URL = 'https://updates.example.net/b?token=s3cret'
const WHOLE = Buffer.from('0123456789')

type Left = { readonly url: string; readonly etag?: string; readonly bytes: number; readonly offset: number }

type Step = number | string | { readonly etag: string | undefined }

/** A server whose answers are cut after so many bytes, fail with a reason, do not come (`hangs`), or have another tag. */
function fetcher(script: readonly Step[], etag: string | undefined = '"v1"', left?: Left) {
  const steps = [...script]
  const asked: BundleRequest[] = []
  const problems: Problem[] = []
  const log: string[] = []
  const received: Buffer[] = []
  const pauses: number[] = []
  const told: string[] = []
  const subject = new Fetcher({
    downloads: {
      async bundle(request): Promise<BundleAnswer> {
        asked.push(request)
        const step = steps.shift() ?? 'signature'
        if (step === 'hangs') await new Promise((_, reject) => request.signal?.addEventListener('abort', reject))
        if (typeof step === 'string') throw new DownloadError(step)
        const offset = request.from?.offset ?? 0
        const part = WHOLE.subarray(offset, typeof step === 'object' ? undefined : offset + step)
        async function* body() {
          yield part
        }
        const tag = typeof step === 'object' ? step.etag : etag
        return { offset, bytes: WHOLE.length, etag: tag, body: body(), close: () => undefined }
      },
    },
    store: {
      unfinished: left,
      async receive({ incoming, offset, origin }: Upload) {
        told.push(`receive ${offset} ${JSON.stringify(origin)}`)
        for await (const chunk of incoming.chunks()) received.push(chunk)
        return undefined
      },
      abandon: async () => void told.push('abandon'),
    },
    asking: () => void told.push('asking'),
    failed: problem => problems.push(problem),
    maxBytes: 1024,
    log: (_, message) => log.push(message),
    wait: (ms, due) => {
      // The pauses, not the limit of hours.
      if (ms > 5 * 60_000) return () => undefined
      pauses.push(ms / 1000)
      setImmediate(due)
      return () => undefined
    },
  })
  return { subject, asked, problems, log, pauses, told, text: () => Buffer.concat(received).toString() }
}

test('a download that breaks off goes on where it was', async t => {
  const { subject, asked, problems, text } = fetcher([4, '7', '28', 3, 3])
  t.equal(await subject.fetch(URL), true)
  t.equal(text(), WHOLE.toString())
  t.strictSame(
    asked.map(({ from }) => from?.offset),
    [undefined, 4, 4, 4, 7],
  )
  t.strictSame(problems, [])
  t.equal(subject.isBusy, false)
})

test('how a download ends that does not succeed; no address is in the log', async t => {
  const cases: readonly (readonly [script: readonly Step[], etag: string | undefined, words: RegExp])[] = [
    [['22'], '"v1"', /refuses it/],
    [[4, '22'], '"v1"', /refuses it/],
    [[4, 'range'], '"v1"', /Range/],
    [[4, { etag: '"v2"' }], '"v1"', /changed/],
    [[4, { etag: undefined }], '"v1"', /changed/],
    [[4, ...Array(20).fill('7')], '"v1"', /in a row: the server cannot be reached/],
    [Array(20).fill(0), '"v1"', /in a row: it breaks off/],
  ]
  for (const [script, etag, words] of cases) {
    const { subject, log, problems, told, pauses } = fetcher(script, etag)
    t.equal(await subject.fetch(URL), false)
    t.match(log.at(-1), words)
    t.notMatch(log.join(), 's3cret')
    t.match(problems, [{ type: 'urn:receiverd:problem:download-failed' }])
    t.equal(told.at(-1), 'abandon', 'no later run goes on with it')
    t.ok(Math.max(0, ...pauses) <= 300)
  }
})

test('a server that is busy is asked again after a growing pause, also before the first byte', async t => {
  const { subject, asked, pauses, problems, text } = fetcher(['busy', 'busy', '56', 4, 'busy', '7', 6])
  t.equal(await subject.fetch(URL), true)
  t.equal(text(), WHOLE.toString())
  t.strictSame(pauses, [5, 10, 20, 5, 10, 20])
  t.equal(asked.length, 7)
  t.strictSame(problems, [])
  const bounded = fetcher(Array(20).fill('busy'))
  t.equal(await bounded.subject.fetch(URL), false)
  t.strictSame(bounded.pauses, [5, 10, 20, 40, 80, 160, 300, 300])
  t.match(bounded.problems, [{ message: /9 times in a row: the server cannot send it at the moment/ }])
  const typo = fetcher(['6', 10])
  t.equal(await typo.subject.fetch(URL), false, 'a name that is not known is told at once')
})

test('it can be ended at any moment', async t => {
  for (const script of [['hangs'], ['busy', 'hangs'], [4, 'hangs']]) {
    const { subject, asked, problems, text } = fetcher(script)
    const done = subject.fetch(URL)
    await eventually(() => asked.length === script.length)
    await subject.cancel(new Problem('conflict', 'Enough.'))
    t.equal(await done, false)
    t.match(problems, [{ message: 'Enough.' }])
    t.equal(text().length, typeof script[0] === 'number' ? 4 : 0)
    t.equal(subject.isBusy, false)
  }
})

test('a download that an earlier run has begun goes on where it was, or from its beginning', async t => {
  const left = { url: URL, etag: '"v1"', bytes: 10, offset: 4 }
  const rest = fetcher(['7', 3, 3], '"v1"', left)
  rest.subject.resume()
  await eventually(() => !rest.subject.isBusy)
  t.equal(rest.text(), '456789')
  t.match(rest.asked, [{ from: { offset: 4, etag: '"v1"' } }, { from: { offset: 4 } }, { from: { offset: 7 } }])
  t.strictSame(rest.pauses, [5, 5], 'the first time at once')
  t.strictSame(rest.told, ['receive 4 undefined'])
  t.notMatch(rest.log.join(), 's3cret')

  for (const without of [{ offset: 0 }, { etag: undefined }]) {
    const { etag, ...whole } = { ...left, ...without }
    const all = fetcher([10], '"v1"', { ...whole, ...(etag !== undefined && { etag }) })
    all.subject.resume()
    await eventually(() => !all.subject.isBusy)
    t.equal(all.text(), WHOLE.toString())
    t.strictSame(all.told, ['asking', `receive 0 ${JSON.stringify({ url: URL, etag: '"v1"' })}`])
  }

  const stopped = fetcher([4, 'hangs'])
  stopped.subject.begin(URL)
  await eventually(() => stopped.asked.length === 2)
  await stopped.subject.stop()
  t.notOk(stopped.told.includes('abandon'), 'a stop is no end')
})

test('a second one is refused meanwhile', async t => {
  const { subject } = fetcher([10])
  subject.begin(URL)
  t.throws(() => subject.begin(URL), { message: 'A bundle is being downloaded.' })
})
