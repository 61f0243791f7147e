/**
 * How UxPlay reads its startup file, to judge the texts for it: read_config_file() and parse_arguments() of
 * uxplay.cpp 1.74, step by step. The former is unchanged since 1.65.
 */

/** How UxPlay would start, as far as its options are known here. */
export interface Started {
  readonly name: string
  readonly appendsHostName: boolean
  /** pin_pw: 0 open, 1 a code on the screen, 2 a password, 3 a code each time. */
  readonly guard: 0 | 1 | 2 | 3
  readonly pin: number | undefined
  readonly display: readonly [width: number, height: number, rate: number]
}

/** `-option value`, in order, as on a command line. */
export function argumentsOf(text: string): string[] {
  const options: string[] = []
  // std::getline() returns no empty last line after a final line break.
  for (const source of text.replace(/\n$/, '').split('\n')) {
    if (source[0] === '#') continue
    const line = [...Buffer.from(source).toString('latin1')]
    let isPartOfItem = false
    let inQuotes = false
    let end = ''
    for (let i = 0; i < line.length; i++) {
      if (!isPartOfItem) {
        if (line[i] === ' ') line[i] = '\0'
        else {
          isPartOfItem = true
          inQuotes = line[i] === "'" || line[i] === '"'
          end = inQuotes ? (line[i] ?? '') : ' '
          if (inQuotes) line[i] = '\0'
        }
      } else if (line[i] === end) {
        if (inQuotes) {
          if (line[i - 1] === '\\') continue
          if (i + 1 < line.length && line[i + 1] !== ' ') continue
        }
        line[i] = '\0'
        isPartOfItem = false
      }
    }
    const tokens = line.join('').split('\0')
    const items = tokens.filter(token => token !== '').map(token => Buffer.from(token, 'latin1').toString())
    for (const [at, item] of items.entries()) options.push(at === 0 ? `-${item}` : item)
  }
  return options
}

/** @throws if UxPlay would stop with a message. */
export function startUxPlay(text: string): Started {
  const argv = argumentsOf(text)
  const started = {
    name: 'UxPlay',
    appendsHostName: true,
    guard: 0 as Started['guard'],
    pin: undefined as number | undefined,
  }
  let display: [number, number, number] = [0, 0, 0]
  for (let i = 0; i < argv.length; i++) {
    const option = argv[i] ?? ''
    const next = argv[i + 1]
    const isValue = next !== undefined && !next.startsWith('-')
    const needed = () => {
      if (!isValue) throw new Error(`invalid: "${option}" had no argument`)
      return argv[++i] ?? ''
    }
    if (option === '-n') started.name = needed()
    else if (option === '-nh') started.appendsHostName = false
    else if (option === '-s') {
      const value = needed()
      const [, width, height, rate = '0'] = /^(\d{1,4})x(\d{1,4})(?:@(\d{1,3}))?$/.exec(value) ?? []
      if (!Number(width) || !Number(height) || Number(rate) > 255) throw new Error(`invalid "-s ${value}"`)
      display = [Number(width), Number(height), Number(rate)]
    } else if (option === '-pin') {
      started.guard = 1
      if (isValue) {
        if (!/^\d{1,10}$/.test(next) || Number(next) === 0 || Number(next) > 9999) throw new Error('invalid "-pin"')
        started.pin = Number(argv[++i])
      }
    } else if (option === '-pw') {
      started.guard = isValue ? 2 : 3
      if (isValue && (argv[++i] ?? '').length < 6) throw new Error('invalid client-access password')
    } else if (['-reg', '-v4l2', '-bt709', '-h265', '-fs', '-vsync', '-restrict'].includes(option)) {
      if (isValue && ['-reg', '-vsync'].includes(option)) i++
    } else if (['-vs', '-as', '-fps'].includes(option)) needed()
    else throw new Error(`unknown option ${option}, stopping`)
  }
  return { ...started, display }
}
