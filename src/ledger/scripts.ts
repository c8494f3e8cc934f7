// Runs the Lua scripts of ./lua by their SHA. Every failure of Redis, and every reply that is none of ours, is
// `ledger_unavailable` with the cause kept; `wasRefused` tells those that certainly changed nothing.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { GatewayError } from '../errors.ts'
import type { RedisLink } from '../redis.ts'

/** What the ledger needs of a connection. Commands must not wait for a lost one: no offline queue, no re-sending. */
export type LedgerLink = Omit<RedisLink, 'close'>

const names = ['identify', 'admit', 'checkpoint', 'settle', 'credit', 'trim'] as const
export type ScriptName = (typeof names)[number]

/** A script's answer: a word, Redis' time, and what belongs to the word. */
export interface Reply {
  readonly word: string
  readonly nowMs: number
  /** The whole answer, word and time included, so that positions are those of the script's header. */
  readonly values: readonly unknown[]
}

export interface Scripts {
  /** Sends in this tick. */
  run(name: ScriptName, keys: readonly string[], args: readonly string[]): Promise<Reply>
  /** Makes Redis know all of them, so that no later call pays a second flight. */
  load(): Promise<void>
}

export interface ScriptsOptions {
  readonly link: LedgerLink
  readonly onReply: (name: ScriptName, seconds: number, nowMs: number) => void
}

const read = (name: string) => readFileSync(new URL(`lua/${name}.lua`, import.meta.url), 'utf8')

/** Each runs what stands before it at every call: the door's functions only where they are needed. */
function textOf(name: ScriptName): string {
  const isDoor = name === 'identify' || name === 'admit'
  return read('prelude') + (isDoor ? read('door') : '') + read(name)
}

export function createScripts({ link, onReply }: ScriptsOptions): Scripts {
  const texts = new Map(names.map((name) => [name, loadable(textOf(name))]))
  const scriptOf = (name: ScriptName) => texts.get(name) ?? loadable('')
  return {
    async run(name, keys, args) {
      const started = performance.now()
      const reply = await call(link.client, scriptOf(name), [...keys, ...args], keys.length)
      onReply(name, (performance.now() - started) / 1000, reply.nowMs)
      return reply
    },
    async load() {
      await Promise.all([...texts.values()].map(({ text }) => link.client.script('LOAD', text)))
    },
  }
}

interface Loadable {
  readonly text: string
  readonly sha: string
}

function loadable(text: string): Loadable {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}

async function call(
  client: Redis,
  { text, sha }: Loadable,
  words: readonly string[],
  keyCount: number,
): Promise<Reply> {
  try {
    return parse(await client.evalsha(sha, keyCount, ...words))
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw unavailable(error)
  }
  try {
    return parse(await client.eval(text, keyCount, ...words))
  } catch (error) {
    throw unavailable(error)
  }
}

function parse(raw: unknown): Reply {
  if (!Array.isArray(raw)) throw new TypeError('A script answered with something that is no list')
  const values: readonly unknown[] = raw
  const [word, nowMs] = values
  if (typeof word !== 'string' || typeof nowMs !== 'number') {
    throw new TypeError('A script answered with an unknown shape')
  }
  return { word, nowMs, values }
}

export function unavailable(cause?: unknown): GatewayError {
  return new GatewayError('ledger_unavailable', { cause })
}

/** Redis answered with an error: the script did not run, or stopped before it wrote. */
export function wasRefused(error: unknown): boolean {
  return (
    error instanceof GatewayError &&
    error.cause instanceof Error &&
    error.cause.name === 'ReplyError'
  )
}

/** Counts come as integers, amounts as text: ioredis reads the integer 9007199254740989 as …988. */
export function numberAt({ values }: Reply, index: number): number {
  const value = values[index]
  const number = typeof value === 'string' && value !== '' ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number)) {
    throw unavailable(new TypeError(`No whole number at ${index}`))
  }
  return number
}

export function textAt({ values }: Reply, index: number): string {
  const value = values[index]
  if (typeof value !== 'string') throw unavailable(new TypeError(`No text at ${index}`))
  return value
}
