// Runs a library's Lua scripts by their SHA, scripts.lua in front of each. Every failure of Redis, and every reply that
// no script of ours can give, is `ledger_unavailable` with the cause kept; `wasRefused` tells the failures that
// certainly changed nothing.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { GatewayError, hasCode } from '../errors.ts'
import type { RedisLink } from './redis.ts'

/** What scripts need of a connection. It must not queue commands while the connection is lost, and must not re-send them. */
export type ScriptLink = Omit<RedisLink, 'close' | 'written' | 'outage'>

/** A folder of Lua: each script with the files to put before it, so that no script has functions it does not use. */
export interface ScriptLibrary<Name extends string> {
  readonly folder: URL
  readonly scripts: Readonly<Record<Name, readonly string[]>>
}

/** A script's answer: a word, the time of Redis, and the values that belong to the word. */
export interface Reply {
  readonly word: string
  readonly nowMs: number
  /** The whole answer, word and time included, so that positions are those of the script's header. */
  readonly values: readonly unknown[]
}

export interface Scripts<Name extends string> {
  /** Sends in this tick. */
  run(name: Name, keys: readonly string[], args: readonly Argument[]): Promise<Reply>
  /** Loads all scripts into Redis, so that no later call needs a second flight. */
  load(): Promise<void>
}

/** A Buffer goes out byte for byte. */
export type Argument = string | Buffer

export interface ScriptsOptions<Name extends string> {
  readonly link: ScriptLink
  readonly library: ScriptLibrary<Name>
  readonly onReply?: (name: Name, seconds: number, nowMs: number) => void
}

export function createScripts<Name extends string>({
  link,
  library,
  onReply,
}: ScriptsOptions<Name>): Scripts<Name> {
  const texts = textsOf(library)
  return {
    async run(name, keys, args) {
      const started = performance.now()
      const reply = await call(link.client, texts[name], [...keys, ...args], keys.length)
      onReply?.(name, (performance.now() - started) / 1000, reply.nowMs)
      return reply
    },
    async load() {
      const all = Object.values<Loadable>(texts)
      await Promise.all(all.map(({ text }) => link.client.script('LOAD', text)))
    },
  }
}

const base = readFileSync(new URL('scripts.lua', import.meta.url), 'utf8')

function textsOf<Name extends string>({ folder, scripts }: ScriptLibrary<Name>) {
  const read = (name: string) => readFileSync(new URL(`${name}.lua`, folder), 'utf8')
  const texts = Object.entries<readonly string[]>(scripts).map(([name, heads]) => {
    const parts = [...heads, name].map(read)
    return [name, loadable(base + parts.join(''))] as const
  })
  return Object.fromEntries(texts) as Record<Name, Loadable>
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
  words: readonly Argument[],
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

/** Whether Redis answered with an error: then the script did not run, or stopped before it wrote. */
export function wasRefused(error: unknown): boolean {
  return (
    error instanceof GatewayError &&
    error.cause instanceof Error &&
    error.cause.name === 'ReplyError'
  )
}

/** Whether the error is part of an outage that the log has reported already: Redis is away, or refuses to write. */
export function isOutage(error: unknown, { outage }: Pick<RedisLink, 'outage'>): boolean {
  if (!(error instanceof GatewayError) || error.code !== 'ledger_unavailable') return false
  // `parse` found an answer that no script of ours should give.
  if (error.cause instanceof TypeError) return false
  return !wasRefused(error) || outage.refuses !== undefined
}

/** Whether no reply came, so that the script may have run. */
export function isUnclear(error: unknown): boolean {
  return hasCode(error, 'ledger_unavailable') && !wasRefused(error)
}

/** A whole number in a reply. Scripts answer counts as integers but amounts as text: ioredis reads the integer 9007199254740989 as …988. */
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
