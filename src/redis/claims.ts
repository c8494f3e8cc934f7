// What an Idempotency-Key stands for, in Redis: the first try while it runs, then for a day a pointer to what it made. The
// answer is made again from that: kept, it would take as much of Redis as a client likes.
// One command a look. What is kept is written by the scripts that create, in one step with what they create; a try that
// died before that blocks its key for `claimLeaseMs` at most. Needs Redis 7 (SET with NX and GET).

import { hash } from 'node:crypto'
import { asked } from './asked.ts'
import { GatewayError } from '../errors.ts'
import type { Claim } from '../exchange.ts'
import { keys } from './redis.ts'
import { createScripts } from './scripts.ts'
import type { ScriptLibrary, ScriptsOptions } from './scripts.ts'

/** A try: who calls what with which key. */
export interface Try {
  /** Unique to it. */
  readonly id: string
  /** The account's. */
  readonly ref: string
  readonly method: string
  readonly path: string
  readonly key: string
  readonly body: Buffer
  /** Its SHA-256, base64url, where that is known already. */
  readonly bodyHash?: string | undefined
}

/** `free` only where nothing was to be taken. */
export type ClaimState =
  | { readonly is: 'taken'; readonly claim: Claim }
  | { readonly is: 'free' }
  | { readonly is: 'running' }
  | { readonly is: 'pointing'; readonly pointer: string }

/** One key of one caller, as one try sees it. */
export interface KeyPlace {
  /** Sends in this tick. Throws `idempotency_key_reused` where the key came with another body. */
  take(): Promise<ClaimState>
  /** The same for who creates nothing. */
  look(): Promise<ClaimState>
}

export const claimLeaseMs = 10_000

const library = {
  folder: new URL('lua/', import.meta.url),
  scripts: { release: [] },
} satisfies ScriptLibrary<string>

type ClaimsOptions = Pick<ScriptsOptions<'release'>, 'link' | 'onReply'>

export function createClaims({ link, onReply }: ClaimsOptions): (one: Try) => KeyPlace {
  const scripts = createScripts({ link, library, onReply })
  return (one) => {
    const key = keyOf(one)
    // Once a try: bodies have megabytes, and a try may look often.
    const body = one.bodyHash ?? hashOf(one.body)
    const running = `${body} running ${one.id}`
    const letGo = async () => void (await scripts.run('release', [key], [running]))
    const words = (pointer: string) => ({ key, running, kept: `${body} kept ${pointer}` })
    return {
      async take() {
        const before = await asked(link.client.set(key, running, 'PX', claimLeaseMs, 'NX', 'GET'))
        return before === null ? { is: 'taken', claim: claimOf(words, letGo) } : read(before, body)
      },
      async look() {
        const before = await asked(link.client.get(key))
        return before === null ? { is: 'free' } : read(before, body)
      },
    }
  }
}

/** Of a script that has these words. */
export function claimOf(words: Claim['words'], letGo: () => Promise<void>): Claim {
  let isKept = false
  return {
    words,
    async keep(pointer, create) {
      const reply = await create(words(pointer))
      isKept = reply.word === 'ok'
      return reply
    },
    release: async () => (isKept ? undefined : letGo()),
  }
}

/** Both mounts of a route are one route. */
function keyOf({ ref, method, path, key }: Try): string {
  const route = path.startsWith('/v1/api/') ? path.slice('/v1'.length) : path
  return keys.claim(ref, hashOf(`${method} ${route}\n${key}`))
}

/** 128 bits: who finds two texts of one hash has two calls of his own taken for one. */
function hashOf(bytes: string | Buffer): string {
  return hash('sha256', bytes, 'base64url').slice(0, 22)
}

function read(text: string, body: string): ClaimState {
  const [of, state, ...pointer] = text.split(' ')
  if (of !== body) throw new GatewayError('idempotency_key_reused')
  return state === 'kept' ? { is: 'pointing', pointer: pointer.join(' ') } : { is: 'running' }
}
