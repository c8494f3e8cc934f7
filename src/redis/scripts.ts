// Runs a library's Lua scripts by their SHA, scripts.lua in front of each. Every failure of Redis, and every reply that
// no script of ours can give, is `ledger_unavailable` with the cause kept; `wasRefused` tells the failures that
// certainly changed nothing.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isCluster } from './client.ts'
import type { Redis } from './client.ts'
import { GatewayError, hasCode } from '../errors.ts'
import type { RedisLink } from './connect.ts'

/** What scripts need of a connection. It must not queue commands while the connection is lost, and must not re-send them. */
export type ScriptLink = Omit<RedisLink, 'close' | 'written' | 'outage'>

/** A script of a library. */
export interface Script<Word extends string = string> {
  /** The files to put before it: what it shares with others. */
  readonly after?: readonly string[]
  /** All words that it answers, as its header says. */
  readonly words: readonly Word[]
}

/** A folder of Lua, and for each script its words. */
export interface ScriptLibrary<Words extends Readonly<Record<string, string>>> {
  readonly folder: URL
  readonly scripts: { readonly [Name in keyof Words]: Script<Words[Name]> }
}

/** The words of each script, of a library that is declared `as const`. */
export type WordsOf<Library extends { readonly scripts: Readonly<Record<string, Script>> }> = {
  readonly [Name in keyof Library['scripts']]: Library['scripts'][Name]['words'][number]
}

/** A script's answer: one of its words, the time of Redis (0 if the script needed none), and the values that belong to the word. */
export interface Reply<Word extends string = string> {
  readonly word: Word
  readonly nowMs: number
  /** The whole answer, word and time included, so that positions are those of the script's header. All are texts where the header says `packed`. */
  readonly values: readonly unknown[]
}

export interface Scripts<Words extends Readonly<Record<string, string>>> {
  /** Sends in this tick. Rejects as `ledger_unavailable` when the answer begins with a word that the script does not have. */
  run<Name extends keyof Words & string>(
    name: Name,
    keys: readonly string[],
    args: readonly Argument[],
  ): Promise<Reply<Words[Name]>>
  /**
   * Loads all scripts into Redis, so that no later call needs a second round trip. Rejects also if Redis is lost
   * meanwhile.
   */
  load(): Promise<void>
}

/** A Buffer goes out byte for byte. */
export type Argument = string | Buffer

export interface ScriptsOptions<Words extends Readonly<Record<string, string>>> {
  readonly link: Pick<ScriptLink, 'client'>
  readonly library: ScriptLibrary<Words>
  readonly onReply?: (name: string, seconds: number, nowMs: number) => void
}

export function createScripts<Words extends Readonly<Record<string, string>>>({
  link,
  library,
  onReply,
}: ScriptsOptions<Words>): Scripts<Words> {
  const texts = textsOf(library)
  return {
    run(name, keys, args) {
      const started = performance.now()
      return call(link.client, texts[name], { keys, args }, (reply) =>
        onReply?.(name, (performance.now() - started) / 1000, reply.nowMs),
      )
    },
    async load() {
      const all = Object.values<Loadable<string>>(texts)
      const load = (node: Pick<Redis, 'script'>) => all.map(({ text }) => node.script('LOAD', text))
      await Promise.all(nodesOf(link.client).flatMap(load))
    },
  }
}

/** Of a Cluster, the primaries that are there: a script that a later one lacks goes out with its text. */
function nodesOf(client: Redis) {
  if (!isCluster(client)) return [client]
  return client.nodes('master').filter(({ status }) => status === 'ready')
}

const base = readFileSync(new URL('scripts.lua', import.meta.url), 'utf8')

function textsOf<Words extends Readonly<Record<string, string>>>({
  folder,
  scripts,
}: ScriptLibrary<Words>): Loadables<Words> {
  const read = (name: string) => readFileSync(new URL(`${name}.lua`, folder), 'utf8')
  const texts = Object.entries<Script>(scripts).map(([name, { after = [], words }]) => {
    const text = base + [...after, name].map(read).join('')
    return [name, { text, sha: createHash('sha1').update(text).digest('hex'), words }] as const
  })
  return Object.fromEntries(texts) as Loadables<Words>
}

interface Loadable<Word extends string> {
  readonly text: string
  readonly sha: string
  readonly words: readonly Word[]
}

type Loadables<Words extends Readonly<Record<string, string>>> = {
  readonly [Name in keyof Words]: Loadable<Words[Name]>
}

interface KeysAndArgs {
  readonly keys: readonly string[]
  readonly args: readonly Argument[]
}

/** One promise behind that of the client: an async function in between would make two more. */
function call<Word extends string>(
  client: Redis,
  { text, sha, words }: Loadable<Word>,
  { keys, args }: KeysAndArgs,
  onReply: (reply: Reply<Word>) => void,
): Promise<Reply<Word>> {
  const take = (raw: unknown) => {
    const reply = parse(raw, words)
    onReply(reply)
    return reply
  }
  const failed = (error: unknown) => {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw unavailable(error)
    return client.eval(text, keys.length, ...keys, ...args).then(take, (again: unknown) => {
      throw unavailable(again)
    })
  }
  return client.evalsha(sha, keys.length, ...keys, ...args).then(take, failed)
}

function parse<Word extends string>(raw: unknown, words: readonly Word[]): Reply<Word> {
  const isPacked = typeof raw === 'string'
  const values: readonly unknown[] | undefined = isPacked ? raw.split('\n') : listOf(raw)
  if (!values) throw strange('something that is no list')
  const [said, time] = values
  const nowMs = isPacked ? Number(time) : time
  const word = words.find((one) => one === said)
  if (word === undefined) throw strange(`a word it has not: ${String(said)}`)
  if (!Number.isInteger(nowMs)) throw strange('an unknown shape')
  return { word, nowMs: Number(nowMs), values }
}

const listOf = (raw: unknown): readonly unknown[] | undefined =>
  Array.isArray(raw) ? raw : undefined

function strange(what: string): GatewayError {
  return unavailable(new TypeError(`A script answered ${what}`))
}

/** Loads them for a gateway that starts. If Redis is lost meanwhile, it starts all the same: a script that Redis lacks goes out with its text. */
export async function loadAtStart(
  scripts: Pick<Scripts<Readonly<Record<string, string>>>, 'load'>,
  redis: Pick<RedisLink, 'outage'>,
): Promise<void> {
  await scripts.load().catch((error: unknown) => {
    if (!isOutage(unavailable(error), redis)) throw error
  })
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
