// What Redis has under an Idempotency-Key: while the first try runs, the id of that try; then for a day a pointer to
// what it created. A replay makes the answer again from the pointer: a stored answer could take as much of Redis as a
// client likes. Each look is one command. The script that creates a resource writes the pointer in the same step; a try
// that dies before that blocks its key for `claimLeaseMs` at most. Needs Redis 7 (SET with NX and GET).

import { hash } from 'node:crypto'
import { asked } from './asked.ts'
import { GatewayError } from '../errors.ts'
import { keys } from './keys.ts'
import { createScripts } from './scripts.ts'
import type { ScriptLibrary, ScriptsOptions, WordsOf } from './scripts.ts'

/** An Idempotency-Key that the first try holds while it runs. */
export interface Claim {
  /** Runs a script that creates a resource. The script checks that `key` still holds `running`, and stores `kept` there for a day. If it answers `ok`, the claim is kept. */
  keep<T extends { readonly word: string }>(
    pointer: string,
    create: (words: ClaimWords) => Promise<T>,
  ): Promise<T>
  /**
   * The words that such a script takes. `pointer` has ids, at most 100 characters; the route's `replay` gets it when
   * the request is repeated.
   */
  words(pointer: string): ClaimWords
  /** Called at the exchange's end; does nothing when the claim is kept, or when another try has it by now. */
  release(): Promise<void>
}

export interface ClaimWords {
  /** The claim's key in Redis. */
  readonly key: string
  readonly running: string
  readonly kept: string
}

/** One request with an Idempotency-Key. */
export interface Try {
  /** Unique to this try. */
  readonly id: string
  /** The account's ref. */
  readonly ref: string
  readonly method: string
  readonly path: string
  readonly key: string
  readonly body: Buffer
  /** The body's SHA-256, base64url, if the caller knows it already. */
  readonly bodyHash?: string | undefined
}

/** Only `look` answers `free`. */
export type ClaimState =
  | { readonly is: 'taken'; readonly claim: Claim }
  | { readonly is: 'free' }
  | { readonly is: 'running' }
  | { readonly is: 'pointing'; readonly pointer: string }

/** One Idempotency-Key of one account, for one try. */
export interface ClaimAttempt {
  /** Claims the key if it is free. Sends in this tick. Throws `idempotency_key_reused` when the key came with another body. */
  take(): Promise<ClaimState>
  /** The same, but claims nothing. */
  look(): Promise<ClaimState>
}

export const claimLeaseMs = 10_000

export const claimScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: { release: { words: ['ok', 'claim_lost'] } },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

type ClaimsOptions = Pick<ScriptsOptions<WordsOf<typeof claimScripts>>, 'link' | 'onReply'>

export function createClaims({ link, onReply }: ClaimsOptions): (one: Try) => ClaimAttempt {
  const scripts = createScripts({ link, library: claimScripts, onReply })
  return (one) => {
    const key = keyOf(one)
    // Computed once for each try: bodies have megabytes, and a try may look often.
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

/** Makes the claim of a try. `letGo` removes the claim from Redis. */
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

/** `/v1/api/…` and `/api/…` are the same route. */
function keyOf({ ref, method, path, key }: Try): string {
  const route = path.startsWith('/v1/api/') ? path.slice('/v1'.length) : path
  return keys.claim(ref, hashOf(`${method} ${route}\n${key}`))
}

/** 132 bits are enough: a client that finds two texts with one hash only confuses two calls of its own. */
function hashOf(bytes: string | Buffer): string {
  return hash('sha256', bytes, 'base64url').slice(0, 22)
}

function read(text: string, body: string): ClaimState {
  const [of, state, ...pointer] = text.split(' ')
  if (of !== body) throw new GatewayError('idempotency_key_reused')
  return state === 'kept' ? { is: 'pointing', pointer: pointer.join(' ') } : { is: 'running' }
}
