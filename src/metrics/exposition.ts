/**
 * Metrics as text: Prometheus format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats), and OpenMetrics 1.0,
 * which differs in the names of families and in the last line.
 */
import { BOUNDS, type Histogram } from './histogram.ts'

export type Labels = readonly (readonly [name: string, value: string])[]

export interface Sample {
  readonly labels?: Labels
  readonly value: number | Histogram
}

export interface Family {
  /** The name as in OpenMetrics: without `_total` or `_info`. */
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram' | 'info'
  readonly help: string
  readonly samples: readonly Sample[]
}

export type Format = 'prometheus' | 'openmetrics'

/** The media types, with their versions. */
export const CONTENT_TYPES: Readonly<Record<Format, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

const SUFFIXES = { counter: '_total', gauge: '', histogram: '', info: '_info' } as const

export function expose(families: readonly Family[], format: Format): string {
  const some = families.filter(({ samples }) => samples.length > 0)
  const text = some.map(family => familyText(family, format)).join('')
  return format === 'openmetrics' ? `${text}# EOF\n` : text
}

function familyText({ name, type, help, samples }: Family, format: Format): string {
  const full = name + SUFFIXES[type]
  const [shown, kind] = format === 'openmetrics' ? [name, type] : [full, type === 'info' ? 'gauge' : type]
  const lines = samples.flatMap(({ labels = [], value }) =>
    typeof value === 'number' ? [line(full, labels, value)] : histogramLines(full, labels, value),
  )
  return [`# HELP ${shown} ${help}`, `# TYPE ${shown} ${kind}`, ...lines, ''].join('\n')
}

/** Formats a histogram. Buckets are cumulative: each includes the counts of those before it. */
function histogramLines(name: string, labels: Labels, { counts, sum }: Histogram): readonly string[] {
  let total = 0
  const buckets = Array.from(counts, (count, at) => {
    total += count
    return line(`${name}_bucket`, [...labels, ['le', boundText(BOUNDS[at])]], total)
  })
  return [...buckets, line(`${name}_sum`, labels, sum), line(`${name}_count`, labels, total)]
}

/** Formats a bound as a canonical number of OpenMetrics 1.0: `1.0`, not `1`. */
function boundText(bound: number | undefined): string {
  if (bound === undefined) return '+Inf'
  return Number.isInteger(bound) ? `${bound}.0` : String(bound)
}

function line(name: string, labels: Labels, value: number): string {
  const list = labels.map(([label, text]) => `${label}="${escaped(text)}"`).join()
  return `${name}${list && `{${list}}`} ${value}`
}

function escaped(text: string): string {
  return text.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n')
}
