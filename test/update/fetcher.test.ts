import { test } from 'tap'
import { type BundleAnswer, type BundleRequest, DownloadError } from '../../hal/os/downloads.ts'
import type { Problem } from '../../src/problem.ts'
import type { Upload } from '../../src/update/bundle-store.ts'
import { Fetcher } from '../../src/update/fetcher.ts'

const URL = 'https://updates.example.net/b?token=s3cret'
const WHOLE = Buffer.from('0123456789')

/** A server whose answers are cut after so many bytes, or fail with a reason. */
function fetcher(script: readonly (number | string)[], etag: string | undefined = '"v1"') {
  const steps = [...script]
  const asked: BundleRequest[] = []
  const problems: Problem[] = []
  const log: string[] = []
  const received: Buffer[] = []
  const subject = new Fetcher({
    downloads: {
      async bundle(request): Promise<BundleAnswer> {
        asked.push(request)
        const step = steps.shift() ?? 'signature'
        if (typeof step === 'string') throw new DownloadError(step)
        const offset = request.from?.offset ?? 0
        const part = WHOLE.subarray(offset, offset + step)
        async function* body() {
          yield part
        }
        return { offset, bytes: WHOLE.length, etag, body: body(), close: () => undefined }
      },
    },
    store: {
      async receive({ incoming }: Upload) {
        for await (const chunk of incoming.chunks()) received.push(chunk)
        return undefined
      },
    },
    failed: problem => problems.push(problem),
    maxBytes: 1024,
    log: (_, message) => log.push(message),
    wait: (ms, due) => {
      // The pauses, not the limit of hours.
      if (ms <= 5 * 60_000) setImmediate(due)
      return () => undefined
    },
  })
  return { subject, asked, problems, log, text: () => Buffer.concat(received).toString() }
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
  const cases: readonly (readonly [script: readonly (number | string)[], etag: string | undefined, words: RegExp])[] = [
    [['22'], '"v1"', /refuses it/],
    [[4, '22'], '"v1"', /refuses it/],
    [[4, 'range'], '"v1"', /Range/],
    [[4, ...Array(20).fill('7')], '"v1"', /does not go on/],
    [Array(20).fill(0), '"v1"', /does not go on/],
  ]
  for (const [script, etag, words] of cases) {
    const { subject, log, problems } = fetcher(script, etag)
    t.equal(await subject.fetch(URL), false)
    t.match(log, [words])
    t.notMatch(log.join(), 's3cret')
    t.equal(problems.length, script[0] === '22' ? 1 : 0, 'the store tells the rest')
  }
})

test('a second one is refused meanwhile', async t => {
  const { subject } = fetcher([10])
  subject.begin(URL)
  t.throws(() => subject.begin(URL), { message: 'A bundle is being downloaded.' })
})
