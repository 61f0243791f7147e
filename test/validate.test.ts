import { test } from 'tap'
import * as Type from 'typebox/type'
import { System } from '../hal/os/system.ts'
import { registry } from '../hal/registry.ts'
import { illFormedStrings, MAX_ERRORS, MAX_STRING, nameErrors, schemaErrors } from '../src/validate.ts'

const schema = Type.Object(
  {
    level: Type.Integer({ minimum: 0, maximum: 5 }),
    access: Type.Enum(['open', 'pin']),
    names: Type.Array(Type.String({ maxLength: 3, pattern: '^(a+)+$', description: 'Letters a.' }), { maxItems: 2 }),
    note: Type.String(),
  },
  { additionalProperties: false },
)
const good = { level: 1, access: 'open', names: ['a'], note: '' }

test('a refusal says where, and what would be accepted', t => {
  t.strictSame(schemaErrors(schema, good, '/x'), [])
  for (const [change, pointer, detail] of [
    [{ level: '1' }, '/x/level', 'must be of type integer'],
    [{ level: 1.5 }, '/x/level', 'must be of type integer'],
    [{ level: -1 }, '/x/level', 'must be at least 0'],
    [{ level: 6 }, '/x/level', 'must be at most 5'],
    [{ access: 'password' }, '/x/access', 'must be one of open, pin'],
    [{ names: 'a' }, '/x/names', 'must be of type array'],
    [{ names: ['a', 'b'] }, '/x/names/1', 'invalid value; expected: Letters a'],
    [{ names: ['a', 'a', 'a'] }, '/x/names', 'must not have more than 2 items'],
    [{ names: ['aaaa'] }, '/x/names/0', 'must not have more than 3 characters'],
    [{ note: 'x'.repeat(MAX_STRING + 1) }, '/x/note', `must not have more than ${MAX_STRING} characters`],
    [{ acess: 'pin' }, '/x/acess', 'unknown property; did you mean access?'],
    [{ 'a/b~c': 1 }, '/x/a~1b~0c', 'unknown property'],
    [{ constructor: 1 }, '/x/constructor', 'unknown property'],
  ] as const)
    t.strictSame(schemaErrors(schema, { ...good, ...change } as never, '/x'), [{ pointer, detail }])
  t.strictSame(schemaErrors(schema, {}, ''), [
    { pointer: '', detail: 'missing required properties level, access, names, note' },
  ])
  t.strictSame(schemaErrors(schema, { level: 1, access: 'pin', names: [] }, ''), [
    { pointer: '', detail: 'missing required property note' },
  ])
  t.strictSame(schemaErrors(schema, 5, '/x'), [{ pointer: '/x', detail: 'must be of type object' }])
  t.end()
})

test('characters are counted as JSON Schema counts them', t => {
  const short = Type.String({ maxLength: 2 })
  for (const text of ['', 'ab', '🎬🎬', 'é'.normalize('NFD')]) t.strictSame(schemaErrors(short, text, ''), [], text)
  for (const text of ['abc', '🎬🎬🎬', 'éa'.normalize('NFD')]) t.equal(schemaErrors(short, text, '').length, 1, text)
  t.end()
})

test('a string that is too long never reaches its pattern', t => {
  const start = process.cpuUsage()
  // `^(a+)+$` takes 2^n steps for n letters and something else.
  t.match(schemaErrors(schema, { ...good, names: [`${'a'.repeat(64 * 1024)}!`] }, ''), [{ pointer: '/names/0' }])
  const ntp = registry(new System('/nowhere')).find(({ name }) => name === 'ntp')
  t.ok(ntp)
  for (const text of [':'.repeat(64 * 1024), `${':'.repeat(64 * 1024)}!`, 'a-'.repeat(32 * 1024)])
    t.match(schemaErrors(ntp?.schema ?? schema, { enabled: true, servers: [text] }, '/ntp'), [
      { pointer: '/ntp/servers/0', detail: 'must not have more than 253 characters' },
    ])
  const { user, system } = process.cpuUsage(start)
  t.ok(user + system < 500_000, `${(user + system) / 1000} ms`)
  t.end()
})

test('a refusal is bounded, whatever was sent', t => {
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`${'x'.repeat(50)}${n}`, 'y'.repeat(2_000)]))
  t.ok(schemaErrors(schema, { ...good, ...many }, '').length <= MAX_ERRORS)
  const keyed = Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: Type.String() })
  t.equal(schemaErrors(keyed, many, '').length, MAX_ERRORS)
  t.end()
})

test('names that a device gives can be neither added nor removed', t => {
  const keyed = Type.Unsafe<object>({ type: 'object', additionalProperties: Type.Object({}, { title: 'interface' }) })
  t.strictSame(nameErrors(keyed, { a: {}, constructor: {} }, { a: {}, b: {} }, '/x'), [
    { pointer: '/x/constructor', detail: 'no such interface; this device has a, b' },
    { pointer: '/x/b', detail: 'cannot be removed' },
  ])
  t.strictSame(nameErrors(schema, {}, good, ''), [], 'where the names are the schema’s')
  t.end()
})

test('unpaired surrogates are found wherever they are', t => {
  t.strictSame(illFormedStrings({ a: ['🎬', { b: '\ud83c' }] }), [
    { pointer: '/a/1/b', detail: 'must not contain an unpaired surrogate' },
  ])
  t.match(illFormedStrings({ '\udfff': 1 }), [{ pointer: '' }])
  t.end()
})
