// A message's stream in Redis: its owner begins, appends and finishes; any gateway may read, and end the stream when
// the owner is gone. Every change is one script, which ensures that changes come from the owner, once, and in order.

import type { Redis } from '../../redis/client.ts'
import type { ClaimWords } from '../../redis/claims.ts'
import { asked } from '../../redis/asked.ts'
import { discard } from '../../sharing/discard.ts'
import { quotaWords } from '../../accounts/plan.ts'
import type { Quota } from '../../accounts/plan.ts'
import { keys } from '../../redis/keys.ts'
import { numberAt, textAt } from '../../redis/scripts.ts'
import { frameStart } from './frames.ts'
import { sessionKeys, streamKeys } from '../library.ts'
import { unlessAsleep } from '../asleep/waking.ts'
import type { Waking } from '../asleep/waking.ts'
import type { SessionPlace, SessionScripts, SessionWords } from '../library.ts'
import { parseStored } from '../message.ts'
import type { StoredMessage } from '../message.ts'
import { Appends, toAppended } from './appends.ts'
import type { Appended } from './appends.ts'
import { Terminals } from './terminals.ts'

/** Where a message lies. */
export interface MessagePlace extends SessionPlace {
  readonly message: string
}

/** A message with the id of the hold that pays for it: the process that has this hold is the owner. */
export interface Owned extends MessagePlace {
  readonly hold: string
}

export interface Batch {
  /** Seq of the first frame. */
  readonly first: number
  readonly count: number
  /** A string is latin1: one char a byte. */
  readonly text: string | Buffer
  /** Snapshot of the words of all frames so far, this batch included. Sent now and then, because append.lua drops only frames that a snapshot has; and in every append with `replaces`. */
  readonly said?: string
  /** True when frames are missing before `first`: this batch replaces the frames in Redis. */
  readonly replaces?: boolean
  /** True when the message will not be withdrawn any more, also when there is no frame yet. */
  readonly isOpen?: boolean
}

export type Begun =
  | { readonly word: Exclude<SessionWords['begin'], WithMessage | 'asleep'> }
  | { readonly word: WithMessage; readonly message: string }

type WithMessage = 'session_busy' | 'older'

export interface StreamState {
  readonly hold: string
  readonly next: number
  /** True when the message will not be withdrawn any more. */
  readonly isOpen: boolean
  readonly isEnded: boolean
  /** True when another gateway than the owner has ended the message. */
  readonly isLost: boolean
}

/** What the frames up to `saidNext` have said, and how far frames go; the snapshot may have megabytes. */
export interface StoredWords {
  readonly said: string
  readonly saidNext: number
  readonly next: number
}

/** Frames as they are stored. */
export interface StoredBytes {
  readonly bytes: Buffer
  /** Seq after the last of the frames. */
  readonly next: number
  /** True when the last frame is the terminal. */
  readonly isEnd: boolean
  /** True when another gateway than the owner wrote the terminal; the owner may still replace it by its own. */
  readonly isLost: boolean
}

export interface StoredFrames extends Omit<StoredBytes, 'bytes'> {
  /** latin1. */
  readonly text: string
}

type Paid = Pick<StoredMessage, 'cost' | 'usage'>

export interface StreamRowsOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
  readonly waking: Waking
  readonly replayBytes: number
  readonly replayKeepMs: number
  /** Seconds; 0 is for ever. */
  readonly retentionS: number
  readonly sessionBytes: number
  readonly leaseMs: number
}

/** A batch has at most 32 KiB and one event more, so one read brings about 1 MiB at most. */
const batchesARead = 32
/** An owner appends at least once a second. If its hold has ended, the owner counts as dead after this silence, or after a lease if that is shorter. */
const mostSilenceMs = 5000

const toBytes = (text: string | Buffer): Buffer =>
  typeof text === 'string' ? Buffer.from(text, 'latin1') : text
const seconds = (): number => Math.floor(Date.now() / 1000)

export interface BeginRequest extends Owned, Quota {
  /** The version of the session's history that was read. */
  readonly seen: string
  /** Id and row, the answer last. */
  readonly rows: readonly (readonly [string, string])[]
  readonly claim?: ClaimWords
  /** The longest that the answer may take: the session's keys must not expire meanwhile. */
  readonly lastsMs?: number
}

export class StreamRows {
  readonly #options: StreamRowsOptions
  readonly #run: SessionScripts['run']
  readonly #appends: Appends
  readonly terminals: Terminals

  constructor(options: StreamRowsOptions) {
    this.#options = options
    this.#run = options.scripts.run
    this.#appends = new Appends(this.#run)
    this.terminals = new Terminals(options)
  }

  /** Sends in this tick. Wakes a session that fell asleep after it was read: its history is the same. */
  async begin({ seen, rows, claim, lastsMs = 0, ...owned }: BeginRequest): Promise<Begun> {
    const { sessionBytes, retentionS } = this.#options
    const { ref, session, message, hold } = owned
    const names = [
      ...sessionKeys(ref, session),
      keys.stream(ref, message),
      keys.holdRows(ref),
      keys.storage(ref),
      keys.account(ref),
      ...(claim ? [claim.key] : []),
    ]
    const keptS = retentionS > 0 ? retentionS + Math.ceil(lastsMs / 1000) : 0
    const { running = '', kept = '' } = claim ?? {}
    const sizes = `${sessionBytes} ${quotaWords(owned)}`
    const head = [`${hold} ${seen} ${sizes}`, `${seconds()} ${keptS}`]
    const words = [...head, running, kept, ...rows.flat()]
    const begin = () => unlessAsleep(this.#run('begin', names, words))
    const reply = await this.#options.waking.awake({ ref, session }, begin)
    const { word } = reply
    if (word === 'session_busy' || word === 'older') return { word, message: textAt(reply, 2) }
    return { word }
  }

  /** Called without frames, too, to show that the owner lives. */
  async append({ ref, session, message, hold }: Owned, batch: Batch): Promise<Appended> {
    const { first, count, text, said = '', replaces = false, isOpen = false } = batch
    const rows = [keys.session(ref, session), keys.messages(ref, session)]
    const names = [...streamKeys(ref, message), ...rows]
    const flags = `${replaces ? 1 : 0} ${isOpen ? 1 : 0}`
    const head = `${hold} ${first} ${count} ${this.#options.replayBytes} ${flags}`
    const words = [head, toBytes(text), said, message]
    return await this.#appends.add(ref, { keys: names, words })
  }

  /** Writes the last frames and the final row, and frees the session. Calling it again has no further effect. */
  async finish(owned: Owned, batch: Batch, row: string): Promise<Appended> {
    const { first, count, text, replaces = false } = batch
    const head = `${owned.hold} ${first} ${count} ${replaces ? 1 : 0}`
    const words = [head, toBytes(text), this.#keptWords(owned), row]
    const reply = await this.#run('finish', this.#rowNames(owned), words)
    return toAppended(reply.word, reply.word === 'behind' ? numberAt(reply, 2) : 0)
  }

  /** Takes a send back: its messages, its stream and its claim. */
  async withdraw(
    { ref, session, message, hold }: Owned,
    { ids, claim }: { readonly ids: readonly string[]; readonly claim?: BeginRequest['claim'] },
  ): Promise<void> {
    const names = this.#rowNames({ ref, session, message })
    if (claim) names.push(claim.key)
    await this.#run('withdraw', names, [hold, claim?.kept ?? '', ...ids])
  }

  /** Ends a message whose owner is gone: `terminal` is its last frame without the id line. True when it has an end now. */
  async finishLost(
    owned: Owned,
    { reached, terminal, row }: { reached: number; terminal: string; row: string },
  ): Promise<boolean> {
    const { leaseMs } = this.#options
    const names = [...this.#rowNames(owned), keys.holdRows(owned.ref)]
    const head = `${owned.hold} ${reached} ${leaseMs} ${Math.min(leaseMs, mostSilenceMs)}`
    const words = [head, toBytes(terminal), this.#keptWords(owned), row]
    const { word } = await this.#run('lost', names, words)
    return word === 'ok' || word === 'ended'
  }

  /** Stores what a message cost in the end. */
  async amend({ ref, session, message }: MessagePlace, { cost, usage }: Paid): Promise<void> {
    const names = [keys.session(ref, session), keys.messages(ref, session), keys.storage(ref)]
    const before = await asked(this.#options.redis.hget(keys.messages(ref, session), message))
    const stored = parseStored(before)
    if (!before || !stored || stored.status === 'in_progress' || stored.cost === cost) return
    await this.#run('amend', names, [message, before, JSON.stringify({ ...stored, cost, usage })])
  }

  /** False where it has ended. */
  async cancel({ ref, message }: MessagePlace): Promise<boolean> {
    return (await this.#run('cancel', [keys.stream(ref, message)], [])).word === 'ok'
  }

  /** Undefined where nothing is kept (any more). */
  async state({ ref, message }: MessagePlace): Promise<StreamState | undefined> {
    const names = ['hold', 'next', 'ended', 'lost', 'open'] as const
    const found = await asked(this.#options.redis.hmget(keys.stream(ref, message), ...names))
    const [hold, nextWord, ended, lost, open] = found
    if (!hold) return undefined
    const next = Number(nextWord ?? 0)
    return {
      hold,
      next,
      isOpen: next > 0 || open === '1',
      isEnded: Boolean(ended),
      isLost: Boolean(lost),
    }
  }

  /** All zero and empty where nothing is kept. */
  async words({ ref, message }: MessagePlace): Promise<StoredWords> {
    const names = ['said', 'said_next', 'next'] as const
    const found = await asked(this.#options.redis.hmget(keys.stream(ref, message), ...names))
    const [said, saidNext, next] = found
    return { said: said ?? '', saidNext: Number(saidNext ?? 0), next: Number(next ?? 0) }
  }

  /** Frames from `seq` on, as far as one read goes; none where there are none yet. Undefined where `seq` is no longer kept. */
  async frames(place: MessagePlace, seq: number): Promise<StoredFrames | undefined> {
    const found = await this.frameBytes(place, seq, batchesARead)
    if (!found) return undefined
    const { bytes, ...rest } = found
    const text = bytes.toString('latin1')
    discard(bytes)
    return { text, ...rest }
  }

  /** The same as bytes, for a caller that only passes the frames on. */
  async frameBytes(
    { ref, message }: MessagePlace,
    seq: number,
    batches: number,
  ): Promise<StoredBytes | undefined> {
    const { redis } = this.#options
    const key = keys.frames(ref, message)
    // The id of an entry is the seq after its last frame.
    const range = redis.xrangeBuffer(key, `${seq + 1}-0`, '+', 'COUNT', batches)
    const pieces: Buffer[] = []
    let next = seq
    let end: Buffer | undefined
    for (const [id, fields] of await asked(range)) {
      pieces.push(fields[1] ?? Buffer.alloc(0))
      next = Number.parseInt(id.toString(), 10)
      // Only the terminal's entry has a second field (`e`).
      end = fields[3]
    }
    const [first] = pieces
    const from = first ? frameStart(first, message, seq) : 0
    if (from === undefined) return undefined
    if (first) pieces[0] = first.subarray(from)
    const bytes = Buffer.concat(pieces)
    // A thousand replays would leave a hundred MiB of garbage in memory.
    for (const piece of pieces) discard(piece)
    return { bytes, next, isEnd: end !== undefined, isLost: end?.toString() === 'lost' }
  }

  #rowNames({ ref, session, message }: MessagePlace): string[] {
    return [...streamKeys(ref, message), ...sessionKeys(ref, session), keys.storage(ref)]
  }

  /** ARGV 3 of finish and lost. */
  #keptWords({ message }: MessagePlace): string {
    return `${message} ${seconds()} ${this.#options.replayKeepMs} ${this.#options.retentionS}`
  }
}
