import t from 'tap'
import { presentedCredential } from '../../src/auth/credentials.ts'
import { Problem } from '../../src/problem.ts'

const base64 = (text: string) => Buffer.from(text).toString('base64')

const NO_SCHEME = 'Authorization has no scheme in front of the credential. Send Authorization: Bearer CREDENTIAL.'
const OTHER_SCHEME =
  'Authorization has a scheme that is not supported. Send Authorization: Bearer CREDENTIAL, or Basic with the credential as ' +
  'the password.'
const DIFFERENT = 'Authorization and apiKey hold different credentials. Send one of them.'

t.test('the texts in a request, in the order in which they are tried', async t => {
  const cases: readonly (readonly [header: string | undefined, query: readonly string[], texts: readonly string[]])[] =
    [
      [undefined, [], []],
      ['', [], []],
      ['Bearer KEY', [], ['KEY']],
      ['bEARER KEY', [], ['KEY']],
      ['Bearer  \t KEY', [], ['KEY']],
      ['Bearer \u00a0KEY', [], ['\u00a0KEY']],
      ['Bearer KEY KEY', [], ['KEY KEY']],
      ['Bearer', [], ['']],
      ['Bearer ', [], ['']],
      ['Basic', [], ['']],
      ['Basic ', [], ['']],
      ['Basic KEY', [], ['KEY']],
      ['Basic KEY.', [], ['KEY.']],
      [`Basic ${base64('ann:KEY')}`, [], [base64('ann:KEY'), 'KEY']],
      [`BASIC \t${base64(':KEY')}`, [], [base64(':KEY'), 'KEY']],
      [`Basic ${base64('ann:KEY:KEY')}`, [], [base64('ann:KEY:KEY'), 'KEY:KEY']],
      ['Basic dTo+Pj8/', [], ['dTo+Pj8/', '>>??']],
      ['Basic dTo-Pj8_', [], ['dTo-Pj8_', '>>??']],
      ['Basic dTpLRVk', [], ['dTpLRVk', 'KEY']],
      ['Basic !dTpLRVk=', [], ['!dTpLRVk=']],
      ['Basic dTpLRVk=!', [], ['dTpLRVk=!']],
      ['Basic dTpLRVk===', [], ['dTpLRVk===']],
      [undefined, ['KEY'], ['KEY']],
      [undefined, [''], ['']],
      ['Bearer KEY', ['KEY'], ['KEY']],
      [`Basic ${base64('ann:KEY')}`, ['KEY'], ['KEY']],
    ]
  for (const [header, query, texts] of cases)
    t.strictSame(presentedCredential(header, query), texts, JSON.stringify([header, query]))
  t.strictSame(presentedCredential(undefined), [], 'neither a header nor a query')
})

t.test('a request whose credential is unclear is refused, and the header is not quoted', async t => {
  const cases: readonly (readonly [
    header: string | undefined,
    query: readonly string[],
    status: number,
    why: string,
  ])[] = [
    ['KEY', [], 401, NO_SCHEME],
    ['Bearer\tKEY', [], 401, NO_SCHEME],
    ['Digest KEY', [], 401, OTHER_SCHEME],
    [' KEY', [], 401, OTHER_SCHEME],
    ['Bearer KEY', ['OTHER'], 400, DIFFERENT],
    ['Bearer', ['KEY'], 400, DIFFERENT],
    ['KEY', ['KEY'], 400, DIFFERENT],
    ['Digest KEY', ['KEY'], 400, DIFFERENT],
    [undefined, ['KEY', 'KEY'], 400, 'The query repeats apiKey. Send it once.'],
    ['KEY', ['KEY', 'KEY'], 400, 'The query repeats apiKey. Send it once.'],
  ]
  for (const [header, query, status, why] of cases) {
    const problem = problemOf(() => presentedCredential(header, query))
    t.match(problem, { status, message: why }, JSON.stringify([header, query]))
    if (status === 401) t.match(problem?.headers, ['WWW-Authenticate', /error_description="malformed"$/])
  }
})

function problemOf(act: () => unknown): Problem | undefined {
  try {
    act()
    return undefined
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
}
