import { ALL_OPTIONS, type Option } from '../src/options.ts'

interface Region {
  readonly path: string
  /** The line before the list. */
  readonly begin: string
  /** The line after it; undefined for the end of the file. */
  readonly end?: string
  /** The list. */
  readonly lines: readonly string[]
}

const EXAMPLE_WIDTH = 120
const FLAGS = ALL_OPTIONS.filter(({ flag }) => flag)
const VARIABLES = ALL_OPTIONS.filter(({ flag }) => !flag)

/** The lists of options that are committed: in the manual page, in the example of a file of options, and in the README beside them. */
const REGIONS: readonly Region[] = [
  {
    path: 'build/package/README.md',
    begin: '<!-- options: from src/options.ts, by make format -->',
    end: '<!-- end of options -->',
    lines: ['', '| flag | variable | default | |', '| --- | --- | --- | --- |', ...ALL_OPTIONS.map(row), ''],
  },
  {
    path: 'build/package/receiverd.8',
    begin: '.\\" flags: from src/options.ts, by make format',
    end: '.\\" end of flags',
    lines: FLAGS.flatMap(manualFlag),
  },
  {
    path: 'build/package/receiverd.8',
    begin: '.\\" variables: from src/options.ts, by make format',
    end: '.\\" end of variables',
    lines: VARIABLES.flatMap(manualVariable),
  },
  {
    path: 'build/package/receiverd.options',
    begin:
      '# All options of receiverd, with their defaults, for /etc/default/receiverd. After a change: systemctl restart receiverd',
    lines: VARIABLES.flatMap(exampleEntry),
  },
]

/** The files that list options. */
export const PATHS: readonly string[] = [...new Set(REGIONS.map(({ path }) => path))]

/** The text of a file with its lists up to date. @throws {Error} if the file has no place for one. */
export function withOptions(path: string, text: string): string {
  let result = text
  for (const { begin, end, lines } of REGIONS.filter(region => region.path === path)) {
    const [before, rest] = result.split(`${begin}\n`)
    const after = end === undefined ? '' : rest?.slice(rest.indexOf(end))
    if (rest === undefined || after === undefined || (end && !rest.includes(end)))
      throw new Error(`${path}: there is no line "${begin}", or no "${end}" after it`)
    result = `${before}${begin}\n${lines.map(line => `${line}\n`).join('')}${after}`
  }
  return result
}

function row({ flag, env, fallback, min, max, help }: Option): string {
  const isCode = typeof fallback === 'string' && !/^(any|none|.* .*)$/.test(fallback)
  const shown = isCode ? `\`${fallback}\`` : fallback.toLocaleString('en')
  const range = min === undefined ? '' : ` (${min.toLocaleString('en')} to ${max?.toLocaleString('en')})`
  return `| ${flag ? `\`--${flag[0]}\` ` : ''}| \`${env}\` | ${shown} | ${help}${range} |`
}

function manualFlag({ flag: [name, argument] = ['', ''], env, fallback, help }: Option): readonly string[] {
  return ['.TP', `.BI ${roff(`--${name}`)} " ${argument}"`, roff(`${sentence(help)} (\\%${env}; default ${fallback}).`)]
}

function manualVariable(option: Option): readonly string[] {
  return ['.TP', `.B ${option.env}`, roff(described(option))]
}

function exampleEntry(option: Option): readonly string[] {
  const { env, fallback, example = fallback } = option
  return ['', ...comment(described(option).replaceAll('`', '')), `#${env}=${example}`]
}

function described({ help, fallback, min, max }: Option): string {
  return `${sentence(help)} (default ${fallback}${min === undefined ? '' : `; ${min} to ${max}`}).`
}

function sentence(phrase: string): string {
  return phrase.replace(/^[a-z]/, letter => letter.toUpperCase())
}

function comment(text: string): readonly string[] {
  const lines = ['#']
  for (const word of text.split(' '))
    if (`${lines.at(-1)} ${word}`.length > EXAMPLE_WIDTH) lines.push(`# ${word}`)
    else lines[lines.length - 1] += ` ${word}`
  return lines
}

/** Code between backticks as bold, and a hyphen as a hyphen that can be pasted (man-pages(7)). */
function roff(text: string): string {
  return text.replaceAll('-', '\\-').replace(/`(.*?)`/g, '\\fB$1\\fP')
}
