/** The names by which instrumented code reaches its counters, and the function that compares. */
export const HITS = '__fuzzHits'
export const COMPARE = '__fuzzCompare'
