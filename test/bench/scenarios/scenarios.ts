import { limit, nchan } from '../subjects/native-peers.ts'
import { bare, betterSse, express, fastify } from '../subjects/node-peers.ts'
import { receiverd } from '../subjects/receiverd.ts'
import { fewStreams, growth, manyStreams, patches, polls, stalls } from './events.ts'
import { manyTokens, oneToken, starts } from './requests.ts'
import { type Scenario, scenario } from './scenario.ts'
import { topics } from './topics.ts'

/** Each by the name that ONLY= takes. */
export const scenarios: Readonly<Record<string, Scenario>> = {
  sse: scenario([receiverd, nchan, limit, fastify, betterSse], fewStreams),
  many: scenario([receiverd, nchan, limit, fastify, betterSse], manyStreams),
  poll: scenario([receiverd, nchan, fastify], polls),
  stall: scenario([receiverd], stalls),
  topics: scenario([receiverd], topics),
  get: scenario([receiverd, bare, fastify, express], oneToken),
  tokens: scenario([receiverd, bare], manyTokens),
  patch: scenario([receiverd, bare], patches),
  start: scenario([receiverd, bare], starts),
  growth: { runs: growth, isLong: true },
}
