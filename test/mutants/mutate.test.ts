import { transformSync } from 'esbuild'
import t from 'tap'
import { type Mutant, mutate, SWITCH } from './mutate.ts'

/** Results of `f` of a source, without and with each mutant. */
function outcomes(text: string, args: readonly unknown[]): readonly (readonly [change: string, outcome: unknown])[] {
  const { code, mutants } = mutate('f.ts', text, 0)
  const { code: script } = transformSync(code, { loader: 'ts' })
  const run = (on: Mutant | undefined) => {
    const f = new Function(SWITCH, `${script}\nreturn f`)((id: number) => id === on?.id)
    try {
      return f(...structuredClone(args))
    } catch {
      return 'throws'
    }
  }
  return [['', run(undefined)], ...mutants.map(mutant => [changeOf(mutant), run(mutant)] as const)]
}

function changeOf({ original, replacement }: Mutant): string {
  return `${original} → ${replacement}`
}

t.test('each mutant does what it says, and without one the source does what it did', async t => {
  for (const [text, args, expected] of [
    [
      'const f = (a: number, b: number) => a < b',
      [1, 1],
      { '': false, 'a < b → true': true, 'a < b → false': false, '< → <=': true, 'a < b → undefined': undefined },
    ],
    [
      'function f(a?: { b: string[] }) { return a?.b.slice(1).at(0)?.trim() ?? "none" }',
      [{ b: ['x', ' y '] }],
      {
        '': 'y',
        'a?.b.slice(1) → a?.b': 'x',
        'a?.b.slice(1).at(0)?.trim() → a?.b.slice(1).at(0)': ' y ',
        '"none" → \'\'': 'y',
      },
    ],
    [
      'function f(a?: { b: string[] }) { return a?.b.slice(1).at(0)?.trim() ?? "none" }',
      [undefined],
      { '': 'none', '?. → .': 'throws', '"none" → \'\'': '' },
    ],
    [
      'function f(list: number[]) {\n  let n = 0\n  for (const one of list) n += one\n  n++\n  return n\n}',
      [[1, 2]],
      { '': 4, 'n += one → ': 1, '+= → -=': -2, 'n++ → n--': 2, 'n++ → ': 3 },
    ],
    [
      'function f(a: number) {\n  if (a > 1) a = 1\n  else a = 2\n  return a\n}',
      [2],
      { '': 1, 'a > 1 → true': 1, 'a > 1 → false': 2, '> → >=': 1, 'a = 1 → ': 2, 'a = 2 → ': 1 },
    ],
    [
      'class A { #n = 1; get n() { return this.#n } }\nfunction f() { return String(new A().n) }',
      [],
      { '': '1', '{ return this.#n } → {}': 'undefined' },
    ],
    [
      'function f(text: string) { return /^[a]+$/.test(text) }',
      ['ba'],
      { '': false, '^ → ': true, '$ → ': false, '+ → *': false },
    ],
    [
      'function f(a: boolean, b: boolean) { return a && !b ? { a } : [] }',
      [true, true],
      { '': [], '&& → ||': { a: true }, 'a → true': [], '!b → true': { a: true }, "[] → ['mutant']": ['mutant'] },
    ],
  ] as const) {
    const found = outcomes(text, args)
    const names = found.map(([change]) => change)
    for (const [change, outcome] of Object.entries(expected)) {
      t.ok(names.includes(change), `${change} is among ${names.join(', ')}`)
      t.ok(
        found.some(([name, got]) => name === change && JSON.stringify(got) === JSON.stringify(outcome)),
        `${text} with ${change || 'no mutant'}: ${JSON.stringify(outcome)}`,
      )
    }
  }
})

t.test('a mutant is told by its place', async t => {
  const { mutants } = mutate('src/a.ts', "\nexport const A = (b: 'c') =>\n  b === 'c'\n", 7)
  t.strictSame(
    mutants.map(({ replacement }) => replacement),
    ['true', 'false', 'undefined'],
  )
  t.match(mutants[0], { id: 7, file: 'src/a.ts', line: 3, code: "b === 'c'", original: "b === 'c'" })
})
