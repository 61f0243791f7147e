import { rmSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { build, stop } from 'esbuild'
import { PROGRAM } from '../../../build/esbuild-options.ts'
import { signingKey } from '../../../src/auth/jwt.ts'
import { generateKey } from '../../../src/auth/key-file.ts'
import type { JsonObject } from '../../../src/json.ts'
import type { Server } from '../server.ts'
import { requestText } from '../wire.ts'
import { receiverd, tokenOf } from './receiverd.ts'
import {
  COMPILE_CACHE,
  DISK,
  type Kind,
  NODE,
  OUT,
  patchRequest,
  type Subject,
  startPinned,
  subscription,
} from './subject.ts'

const SOURCES = 'test/bench/peers'
const API_KEY = generateKey()
const SECRET = Buffer.from(signingKey(API_KEY)).toString('base64url')

/** A server on Node in a file of its own below peers/. */
class NodePeer implements Subject {
  readonly name: string
  readonly #file: string

  /** @param file Where `compilePeers` puts it. */
  constructor(name: string, file: string) {
    this.name = name
    this.#file = join(OUT, file)
  }

  start(): Promise<Server> {
    const body = receiverd.configuration
    return startPinned({
      argv: [NODE, this.#file, String(Buffer.byteLength(body)), DISK],
      env: { NODE_ENV: 'production', NODE_COMPILE_CACHE: COMPILE_CACHE, SECRET, BODY: body },
      request: requestText({ path: '/' }),
    })
  }

  token(sub?: string): string {
    return tokenOf(API_KEY, sub)
  }

  publish(change?: JsonObject): string {
    return patchRequest(this.token(), change)
  }

  subscribe(kind: Kind, path?: string): string {
    return subscription(this.token(), kind, path)
  }
}

export const bare = new NodePeer('bare node:http', 'bare.cjs')
export const fastify = new NodePeer('Fastify', 'fastify.mjs')
export const express = new NodePeer('Express', 'express.mjs')
/** Express again, named for its stream library. */
export const betterSse = new NodePeer('better-sse', 'express.mjs')

/**
 * Puts the peers into OUT as JavaScript, because NODE may be one that does not run TypeScript. Their packages stay
 * outside, as they are used; `bare` is CommonJS, as the service's bundle is.
 */
export async function compilePeers(): Promise<void> {
  const to = { write: true, outdir: OUT }
  const modules = { packages: 'external', format: 'esm', outExtension: { '.js': '.mjs' } } as const
  await build({ ...PROGRAM, ...to, entryPoints: [`${SOURCES}/bare.ts`], outExtension: { '.js': '.cjs' } })
  await build({ ...PROGRAM, ...to, ...modules, entryPoints: [`${SOURCES}/express.ts`, `${SOURCES}/fastify.ts`] })
  // esbuild keeps a process, which would take processor time from the subjects.
  await stop()
  rmSync(join(OUT, 'node_modules'), { force: true })
  symlinkSync(resolve('test/bench/node_modules'), join(OUT, 'node_modules'))
}

/** A credential for a peer that is not on Node. */
export function peerToken(): string {
  return tokenOf(API_KEY)
}
