import { type ParseArgsConfig, parseArgs } from 'node:util'
import { UsageError } from '../usage-error.ts'

type Options = NonNullable<ParseArgsConfig['options']>

/**
 * Parses the options on a command line, and the words between them.
 * @param refuse Throws for an unknown option, which is passed as it was written.
 * @throws {UsageError} for any other mistake, naming the program whose help to read.
 */
export function parseFlags<O extends Options>(
  argv: readonly string[],
  options: O,
  program: string,
  refuse: (option: string, positionals: readonly string[]) => never,
) {
  const config = { args: [...argv], options, allowPositionals: true } as const
  try {
    return parseArgs(config)
  } catch (error) {
    const { tokens, positionals } = parseArgs({ ...config, strict: false, tokens: true })
    for (const token of tokens)
      if (token.kind === 'option' && !Object.hasOwn(options, token.name)) refuse(token.rawName, positionals)
    // Node's messages consist of one or more sentences, the first of which names the mistake.
    const [sentence = ''] = (error instanceof Error ? error.message : '').split(/\.\s/, 1)
    throw new UsageError(`${sentence.replace(/\.$/, '')}; see ${program} --help`)
  }
}
