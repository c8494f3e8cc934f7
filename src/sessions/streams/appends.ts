// Sends the appends that are asked for in one tick as few calls: those of one account go together, because their keys are
// in one slot of a Cluster. Each is answered, or fails, on its own.

import { keys } from '../../redis/keys.ts'
import { numberAt, unavailable, wasRefused } from '../../redis/scripts.ts'
import type { Argument, Reply } from '../../redis/scripts.ts'
import type { SessionScripts } from '../library.ts'

export type Appended =
  | { readonly word: 'ok'; readonly isCancelled: boolean }
  /** The message has another owner, or has ended. */
  | { readonly word: 'lost' }
  /** Redis has neither the stream nor the session. */
  | { readonly word: 'forgotten' }
  | { readonly word: 'behind'; readonly next: number }

interface Append {
  readonly keys: readonly string[]
  readonly words: readonly Argument[]
}

type Waiting = Append & PromiseWithResolvers<Appended>

// Redis does nothing else during a call: 256 KiB take it 1 ms.
const mostAtOnce = 16
/** A call ends with the append that reaches this. A snapshot, and what follows it after an outage, may have megabytes. */
const enoughBytes = 256 * 1024

export class Appends {
  readonly #run: SessionScripts['run']
  readonly #waiting = new Map<string, Waiting[]>()

  constructor(run: SessionScripts['run']) {
    this.#run = run
  }

  /** Sends at the end of this tick. */
  add(ref: string, append: Append): Promise<Appended> {
    const one: Waiting = { ...append, ...Promise.withResolvers<Appended>() }
    const others = this.#waiting.get(ref)
    if (others) others.push(one)
    else {
      this.#waiting.set(ref, [one])
      process.nextTick(() => this.#sendAll(ref))
    }
    return one.promise
  }

  #sendAll(ref: string): void {
    const all = this.#waiting.get(ref) ?? []
    this.#waiting.delete(ref)
    let some: Waiting[] = []
    let bytes = 0
    for (const one of all) {
      some.push(one)
      for (const word of one.words) bytes += word.length
      if (some.length < mostAtOnce && bytes < enoughBytes && one !== all.at(-1)) continue
      void this.#send(ref, some)
      some = []
      bytes = 0
    }
  }

  async #send(ref: string, some: readonly Waiting[]): Promise<void> {
    try {
      const names = [keys.storage(ref), ...some.flatMap((one) => one.keys)]
      const words = some.flatMap((one) => one.words)
      const reply = await this.#run('append', names, words)
      for (const [i, { resolve }] of some.entries()) resolve(appended(reply, 2 + 2 * i))
    } catch (error) {
      // The script fails as a whole, even if only one stream is broken.
      const isOne = some.length === 1 || !wasRefused(error)
      if (isOne) for (const { reject } of some) reject(error)
      else for (const one of some) void this.#send(ref, [one])
    }
  }
}

function appended(reply: Reply, at: number): Appended {
  return toAppended(reply.values[at], numberAt(reply, at + 1))
}

/** Reads a word of append.lua or finish.lua with its number. */
export function toAppended(word: unknown, value: number): Appended {
  if (word === 'ok') return { word, isCancelled: value === 1 }
  if (word === 'behind') return { word, next: value }
  if (word === 'lost' || word === 'forgotten') return { word }
  throw unavailable(new TypeError(`An append was answered ${String(word)}`))
}
