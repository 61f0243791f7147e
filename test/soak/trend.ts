/** Whether a measurement grows over time, by statistics that neither an outlier nor noise of any distribution misleads. */

/** Of the normal distribution: growth is seen where there is none once in 1,000 times. */
const Z = 3.1
/** Fewer samples say nothing. */
export const MIN_SAMPLES = 6

export interface Trend {
  /** In units of the measurement, over the whole of the samples' time: the Theil-Sen estimator. */
  readonly growth: number
  /** The least growth: the lower end of Sen's confidence interval. */
  readonly atLeast: number
}

/**
 * The median of the slopes between all pairs of samples (Theil 1950), with a confidence interval from the variance of
 * Kendall's S (Sen 1968): up to 29 % of the samples may be anything.
 * @param times Of the samples, ascending, in any unit.
 */
export function trendOf(times: readonly number[], values: readonly number[]): Trend {
  const n = values.length
  if (n < MIN_SAMPLES || n !== times.length) throw new RangeError(`${n} samples are too few to see a trend`)
  const slopes: number[] = []
  for (let i = 0; i < n; i++)
    for (let j = i + 1; j < n; j++)
      slopes.push(((values[j] ?? 0) - (values[i] ?? 0)) / ((times[j] ?? 0) - (times[i] ?? 0)))
  slopes.sort((a, b) => a - b)
  const span = (times[n - 1] ?? 0) - (times[0] ?? 0)
  const deviation = Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18)
  const lowest = Math.max(0, Math.floor((slopes.length - Z * deviation) / 2))
  return { growth: median(slopes) * span, atLeast: (slopes[lowest] ?? 0) * span }
}

/** @param sorted At least one. */
function median(sorted: readonly number[]): number {
  const half = sorted.length >> 1
  const [low = 0, high = 0] = [sorted[half - 1], sorted[half]]
  return sorted.length % 2 === 0 ? (low + high) / 2 : high
}
