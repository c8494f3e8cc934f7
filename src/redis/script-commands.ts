// Sends scripts by a Command of our own. ioredis' makes a timer, four functions and two lists for each command, and V8
// makes one of those functions in its old generation, where it keeps the command until the next full collection. Ours has
// the same time-out, by one timer for all that wait.

import type { Cluster, Command, Redis } from 'ioredis'
import { plain } from '../plain.ts'
import { LinkedList } from '../sharing/linked-list.ts'
import type { Linked } from '../sharing/linked-list.ts'

/** What ioredis' types keep private of a command, and what its clients do not read of ours. */
interface CommandInside {
  args: readonly (string | Buffer)[]
  isResolved: boolean
  isSettled: boolean
  transformed: boolean
  promise: Promise<unknown>
  /** Called by its constructor; makes the promise and its functions. */
  initPromise(): void
  stringifyArguments(): void
  toWritable(socket: object): string | Buffer
  /** Buffers become text. */
  transformReply(reply: unknown): unknown
}

type CommandClass = new (
  name: string,
  args: readonly [],
  options: { readonly replyEncoding: 'utf8' },
) => CommandInside

/** A command that waits for its reply. */
interface SentCommand extends Linked<SentCommand> {
  /** By `performance.now()`. */
  dueAtMs: number
  reject(error: Error): void
}

const asText = { replyEncoding: 'utf8' } as const
const noWords: readonly [] = []

/** With a new ioredis, read again what its clients and its `initPromise` do with a command. */
const scriptCommandOf = (Inside: CommandClass) =>
  class extends Inside implements SentCommand {
    isListed = false
    previous: SentCommand | undefined = undefined
    next: SentCommand | undefined = undefined
    dueAtMs = 0
    #line: SentLine | undefined = undefined
    readonly #settle: PromiseWithResolvers<unknown>

    constructor(words: readonly (string | Buffer)[]) {
      super('evalsha', noWords, asText)
      this.args = words
      this.stringifyArguments()
      this.transformed = true
      this.#settle = Promise.withResolvers<unknown>()
      this.promise = this.#settle.promise
    }

    override initPromise(): void {}

    /** Nearly all words are ASCII: so their bytes are counted once for all, and not word by word. */
    override toWritable(socket: object): string | Buffer {
      const { args } = this
      const pieces = [`*${args.length + 1}\r\n$7\r\nevalsha`]
      for (const word of args) {
        if (typeof word !== 'string') return super.toWritable(socket)
        pieces.push(`$${word.length}`, word)
      }
      pieces.push('')
      const text = pieces.join('\r\n')
      return Buffer.byteLength(text) === text.length ? text : super.toWritable(socket)
    }

    /** The client calls it whenever it sends the command; the first time counts. */
    setTimeout(ms: number): void {
      if (this.#line || this.isSettled) return
      this.#line = lineOf(ms)
      this.#line.add(this)
    }

    // Methods, which cost nothing a command. A Cluster gives each its own `reject`, which calls ours.

    resolve(reply: unknown): void {
      this.#leave()
      this.isResolved = true
      this.#settle.resolve(this.transformReply(reply))
    }

    reject(error: Error): void {
      this.#leave()
      this.#settle.reject(error)
    }

    #leave(): void {
      this.isSettled = true
      this.#line?.delete(this)
    }
  }

/** Commands of one time-out that wait for their replies, the oldest first. */
class SentLine {
  readonly #ms: number
  readonly #waiting = new LinkedList<SentCommand>()
  #isTimed = false

  constructor(ms: number) {
    this.#ms = ms
  }

  add(command: SentCommand): void {
    command.dueAtMs = performance.now() + this.#ms
    this.#waiting.add(command)
    if (!this.#isTimed) this.#lookIn(this.#ms)
  }

  delete(command: SentCommand): void {
    this.#waiting.delete(command)
  }

  /** The timer is not cleared when its command is answered: it then looks for the oldest, and is set anew for that one. */
  #lookIn(ms: number): void {
    this.#isTimed = true
    setTimeout(() => this.#look(), ms).unref()
  }

  #look(): void {
    this.#isTimed = false
    for (let oldest = this.#waiting.first; oldest; oldest = this.#waiting.first) {
      const leftMs = oldest.dueAtMs - performance.now()
      // Node's timers may be a fraction of a millisecond early.
      if (leftMs > 1) return this.#lookIn(leftMs)
      this.#waiting.delete(oldest)
      oldest.reject(new Error('Command timed out'))
    }
  }
}

/** By their time-out in ms, of which a process has one or two. */
const lines = new Map<number, SentLine>()

function lineOf(ms: number): SentLine {
  const known = lines.get(ms)
  if (known) return known
  const line = new SentLine(ms)
  lines.set(ms, line)
  return line
}

/** What is replaced of a client. */
interface ScriptClient {
  evalsha(...words: readonly (string | Buffer | number)[]): Promise<unknown>
  sendCommand(command: unknown): Promise<unknown>
}

/** Lists of words and a callback, which a plugin may give, are left to ioredis. */
const isWord = (word: unknown) =>
  typeof word === 'string' || typeof word === 'number' || word instanceof Buffer

/** For `evalsha` alone, whose words ioredis does not rewrite. */
export function replaceEvalsha(
  command: typeof Command,
  clients: readonly (typeof Redis | typeof Cluster)[],
): void {
  const ScriptCommand = scriptCommandOf(command as unknown as CommandClass)
  for (const { prototype } of clients) {
    // Its types have a method for each form of words.
    const client = prototype as unknown as ScriptClient
    const { evalsha } = client
    client.evalsha = function (this: ScriptClient, ...words) {
      if (plain.has('script-commands') || !words.every(isWord)) return evalsha.call(this, ...words)
      return this.sendCommand(new ScriptCommand(words as (string | Buffer)[]))
    }
  }
}
